"""Storage for checkpoints outside this machine's disks: a real S3 server, near or far."""
