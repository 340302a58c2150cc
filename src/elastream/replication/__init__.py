"""Choose replicas and hosts of operators together (EDRP, paper 004): a wing of elastream."""

from elastream.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
