"""Hand windowed queries over to another application (UniMiCo, paper 002): a wing of elastream."""

from elastream.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
