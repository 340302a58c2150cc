"""The names of the rivals that plan a single migration, for commands that must start quickly."""

from __future__ import annotations

from typing import Final

__all__ = ["RIVALS"]

RIVALS: Final = ("even-split", "consistent-hashing", "redist")
"""Storm's, the hash ring's, and Gedik's; they may exceed the load limit."""
