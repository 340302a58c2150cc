"""Storage for checkpoints that is no disk of this machine: a real S3 server, near or far."""
