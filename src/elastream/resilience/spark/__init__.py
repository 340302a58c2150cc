"""Measure on Spark what tasks cost."""
