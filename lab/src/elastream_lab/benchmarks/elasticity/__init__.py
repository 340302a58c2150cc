"""``elastream bench elasticity``: one load under every way to size an application."""
