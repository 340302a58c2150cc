"""Resilient placement (paper 003): query graphs, the problem they pose, and its plans."""
