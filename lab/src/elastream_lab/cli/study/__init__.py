"""``elastream study``."""
