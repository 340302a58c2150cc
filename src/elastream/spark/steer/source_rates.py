"""Whether storage or executors give state more quickly, as measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from elastream.core.ports import CopySource
from elastream.spark.internals.keepers import CopyStatus

_STALE_S: Final = 3600.0
"""After this time a source that was slower is measured again."""
_FORGET: Final = 0.5
"""What a measurement counts for after the next one."""


@dataclass(slots=True)
class _Rate:
    """How quickly one source gave state, the last measurements counting most."""

    bytes: float = 0.0
    seconds: float = 0.0
    at_s: float | None = None
    """When it was measured last."""

    def take_in(self, size: int, seconds: float, now_s: float) -> None:
        self.bytes = _FORGET * self.bytes + size
        self.seconds = _FORGET * self.seconds + seconds
        self.at_s = now_s

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / max(self.seconds, 1e-3)

    def is_known(self, now_s: float) -> bool:
        return self.at_s is not None and now_s - self.at_s < _STALE_S


class SourceRates:
    """How quickly storage and executors have given state, opening it included."""

    def __init__(self) -> None:
        self._storage, self._executors = _Rate(), _Rate()

    def take_in(self, copy: CopyStatus, now_s: float) -> None:
        """Take in what became of a copy."""
        seconds = copy.took_ms / 1000
        if copy.version >= 0 and copy.sent:
            self._executors.take_in(copy.sent, seconds, now_s)
        elif copy.version >= 0 and copy.bytes:
            self._storage.take_in(copy.bytes, seconds, now_s)

    def take_in_losses(self, seconds: float, now_s: float) -> None:
        """Take in how long executors were waited for that sent nothing."""
        if seconds > 0:
            self._executors.take_in(0, seconds, now_s)

    def from_executors(self, stores: Sequence[str], source: CopySource, now_s: float) -> list[str]:
        """Return which of these stores shall come from executors.

        All from the source that was faster. Where the other is not known, or was measured long
        ago, the last of several stores comes from that one. Executors are tried first.
        """
        if source != "faster":
            return list(stores) if source == "executor" else []
        storage, executors = self._storage, self._executors
        slower = storage.at_s is not None and executors.at_s is not None
        slower = slower and executors.bytes_per_s < storage.bytes_per_s
        if slower:
            return [] if executors.is_known(now_s) else list(stores[-1:])
        tried = executors.at_s is not None and not storage.is_known(now_s) and len(stores) > 1
        return list(stores[:-1] if tried else stores)

    def described(self) -> str:
        """Return both rates in words; empty where neither is known."""
        rates = (("executors", self._executors), ("storage", self._storage))
        known = [
            f"{name} gave {rate.bytes_per_s / 1e6:.0f} MB/s"
            for name, rate in rates
            if rate.at_s is not None
        ]
        return ", ".join(known)
