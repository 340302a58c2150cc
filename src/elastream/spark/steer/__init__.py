"""Steering Spark: executors come and go, state is placed, new executors are warmed."""
