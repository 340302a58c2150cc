"""Ahead of the burst: what a forecast of the load is worth beside none, and beside an oracle."""
