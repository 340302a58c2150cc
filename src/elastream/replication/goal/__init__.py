"""Replication (EDRP, paper 004): how many executors, and which of them hold which operator."""
