"""Random applications with random faults, each held against a batch computation."""
