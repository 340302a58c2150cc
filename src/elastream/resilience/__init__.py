"""Placements that stand as many loads as possible (paper 003): a wing of elastream."""
