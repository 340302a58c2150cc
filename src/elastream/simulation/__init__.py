"""The loop's ports on a simulated cluster, for sizes and accidents no laptop has."""
