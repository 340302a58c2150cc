"""Benchmarks: ratios and growth, both sides measured in one run. ``make bench`` runs them."""
