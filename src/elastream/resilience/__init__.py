"""Placements that stand as many loads as possible (paper 003): a wing of elastream."""

from elastream.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
