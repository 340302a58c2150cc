"""How long a copy of state takes, from storage and from the executor that owns it."""
