"""``elastream demo``."""
