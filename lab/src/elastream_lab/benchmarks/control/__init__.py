"""``elastream bench control``: the loop at sizes that no machine here has."""
