"""``elastream plan``: a module a kind of plan."""
