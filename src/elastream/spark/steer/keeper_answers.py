"""What the keepers of executors have answered, and which of them answer no more.

A keeper answers every message. It may end: it receives nothing for a minute, or fails. So what it
reported counts only while it answers, and not before it has its orders.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from elastream.spark.internals.keepers import CopyStatus, KeeperReport, Keepers, OfferStatus

_SILENT_S: Final = 15.0
"""A keeper that has not answered a message after this time is gone."""


@dataclass(slots=True)
class _Answers:
    """What one executor's keeper has answered since copies were ordered of it."""

    first: int
    """The first message written after its orders were delivered; earlier reports do not count."""
    orders: int
    last: int = -1
    """The message that was answered last."""
    unanswered_s: float | None = None
    """When the first message after that was written."""

    def take_in(self, report: KeeperReport | None) -> None:
        if report is not None and report.number > self.last:
            self.last, self.unanswered_s = report.number, None

    def is_silent(self, now_s: float, limit_s: float) -> bool:
        """Whether there is no keeper."""
        return self.unanswered_s is not None and now_s - self.unanswered_s > limit_s


class KeeperAnswers:
    """The answers of all keepers, by executor."""

    def __init__(self, keepers: Keepers, clock: Callable[[], float]) -> None:
        self._keepers = keepers
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: dict[str, _Answers] = {}

    def ordered(self, executor: str, orders: int) -> None:
        """Begin anew: an executor took its orders, for the first time or again."""
        with self._lock:
            self._answers[executor] = _Answers(self._keepers.number + 1, orders)

    def orders(self, executor: str) -> int:
        """Return how often an executor took its orders."""
        return self._answers[executor].orders

    def written(self, executor: str) -> None:
        """Await an answer to the message that was just written."""
        with self._lock:
            answers = self._answers.get(executor)
            if answers is not None and answers.unanswered_s is None:
                answers.unanswered_s = self._clock()

    def copies(self, executor: str) -> Mapping[str, CopyStatus] | None:
        """Return what an executor's keeper has; ``None`` where that is not known."""
        report = self._report(executor)
        return None if report is None else report.copies

    def offers(self, executor: str) -> Mapping[str, OfferStatus]:
        """Return what an executor offers; nothing where that is not known."""
        report = self._report(executor)
        return {} if report is None else report.offers

    def is_silent(self, executor: str, limit_s: float = _SILENT_S) -> bool:
        """Whether an executor that took orders has no keeper any more."""
        return self._answers[executor].is_silent(self._clock(), limit_s)

    def _report(self, executor: str) -> KeeperReport | None:
        report = self._keepers.read(executor)
        with self._lock:
            answers = self._answers.get(executor)
            if answers is None:
                return None
            answers.take_in(report)
            if report is None or report.number < answers.first:
                return None
            return None if answers.is_silent(self._clock(), _SILENT_S) else report
