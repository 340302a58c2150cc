"""``elastream bench sweep``: many random simulated applications under one goal."""
