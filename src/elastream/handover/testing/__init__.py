"""Handover between simulated applications."""
