"""Resilient placement (paper 003): query graphs, the problem, and its plans."""
