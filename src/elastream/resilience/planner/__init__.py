"""Resilient placement (paper 003): operators on nodes so that bursts need no move."""
