"""Planners to compare with; they may exceed the load limit."""
