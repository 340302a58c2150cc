"""``elastream bench migration``: one change of size under every mechanism."""
