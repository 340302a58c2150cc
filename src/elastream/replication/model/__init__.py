"""The replication problem (paper 004): operators, streams, nodes, and what a plan answers."""
