"""Placements that tolerate as many loads as possible (ROD, paper 003): a wing of elastream."""

from elastream.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
