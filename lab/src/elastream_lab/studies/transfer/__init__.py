"""How long state travels between hosts, in phases and all at once (paper 000, section 5.1)."""
