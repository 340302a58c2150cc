"""Launching: a program runs as it is, and its stateful queries are attached."""
