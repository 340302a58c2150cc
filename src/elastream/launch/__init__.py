"""Launching: a program of somebody else runs as it is, and its stateful queries are attached."""
