"""The hand-over between simulated applications."""
