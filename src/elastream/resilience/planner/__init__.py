"""Resilient placement (paper 003): place operators on nodes so that bursts need no move."""
