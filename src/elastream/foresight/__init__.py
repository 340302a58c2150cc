"""Plan migrations with later migrations in view (papers 000 and 001): a wing of elastream."""

from elastream.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
