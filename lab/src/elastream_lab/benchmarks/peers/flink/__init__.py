"""Apache Flink as a peer: a cluster of its own on this machine, and the job it runs."""
