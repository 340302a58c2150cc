"""Goals: pure functions from what was observed to what is wanted, one file each."""
