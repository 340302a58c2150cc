"""The replication problem (paper 004) and its plans: operators, streams, nodes, deployments."""
