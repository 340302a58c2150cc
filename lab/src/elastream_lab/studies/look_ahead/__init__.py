"""Ahead of the burst: what a forecast of the load is worth next to none, and next to an oracle."""
