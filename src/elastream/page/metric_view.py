"""The figures of metrics, read from the present scene as a whole record.

The record (:mod:`elastream.core.scene_lines`) may come from a log file, of which only the outline
was checked: a member of another type counts as not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from elastream.model.checks import Number

_LARGEST: Final = 1e100
_LET_GO: Final = "let go"

Json = Mapping[str, Any]
Samples = Iterable[tuple[tuple[str, ...], Number | None]]
"""Values with their labels; ``None`` where one is not known."""


@dataclass(frozen=True, slots=True)
class View:
    """The parts of a scene; empty where nothing is known of them."""

    at_ms: Number | None
    loop: Json
    executors: Mapping[str, Json]
    queries: Mapping[str, Json]
    tasks: tuple[tuple[str, Number, str | None], ...]
    """Of every task its executor, the bytes of its state, and the executor of its copy."""
    change: Json

    @classmethod
    def of(cls, seen: Json | None) -> View:
        """Return the parts of a record; nothing is known of what the loop has let go."""
        if seen is None:
            return cls(None, {}, {}, {}, (), {})
        loop, at_ms = seen["loop"], number_of(seen.get("at_ms"))
        if loop.get("mode") == _LET_GO:
            return cls(at_ms, loop, {}, {}, (), {})
        tasks = tuple(
            (str(task[0]), number_of(task[2]) or 0, _text(task[3]) if len(task) > 3 else None)
            for task in seen["tasks"].values()
        )
        change = seen.get("change") or {}
        return cls(at_ms, loop, seen["executors"], seen["queries"], tasks, change)

    @property
    def attached(self) -> bool | None:
        """Whether the loop has not let go; ``None`` while nothing is seen."""
        return self.loop["mode"] != _LET_GO if "mode" in self.loop else None

    @property
    def placed(self) -> bool:
        """Whether it is known where tasks are."""
        return bool(self.attached) and (bool(self.tasks) or not self.queries)

    @property
    def spares(self) -> int | None:
        """How many executors are kept ready without state."""
        if not self.attached:
            return None
        return sum(each.get("spare") is True for each in self.executors.values())

    @property
    def working(self) -> int | None:
        """How many executors are at work."""
        return None if self.spares is None else len(self.executors) - self.spares

    @property
    def utilisation(self) -> Number | None:
        """Mean over the executors at work."""
        return number_of(self.loop.get("utilisation")) if self.attached else None

    @property
    def under_way_s(self) -> Number | None:
        """For how long the change under way has been; ``None`` where none is."""
        asked_ms = number_of(self.change.get("asked_ms"))
        if asked_ms is None or self.at_ms is None:
            return None
        return max(0.0, (self.at_ms - asked_ms) / 1000)

    def mark(self, name: str) -> Number | None:
        """Return one of the marks between which the goal keeps the utilisation."""
        marks = self.loop.get("marks")
        return number_of(marks.get(name)) if isinstance(marks, dict) else None

    def of_loop(self, name: str, per: Number = 1) -> Number | None:
        """Return a figure of the loop, in units of ``per``."""
        return _in_units(self.loop.get(name), per)

    def of_queries(self, name: str, per: Number = 1) -> Samples:
        """Return a figure of every query, in units of ``per``."""
        return [((each,), _in_units(query.get(name), per)) for each, query in self.queries.items()]

    def of_executors(self, name: str) -> Samples:
        """Return a figure of every executor."""
        return [
            (self._labels(each), number_of(entry.get(name)))
            for each, entry in self.executors.items()
        ]

    def of_memory(self, name: str) -> Samples:
        """Return a figure of the memory of every executor."""
        return [
            (self._labels(each), number_of((entry.get("memory") or {}).get(name)))
            for each, entry in self.executors.items()
            if isinstance(entry.get("memory") or {}, dict)
        ]

    def held(self, amounts: Mapping[str, Number]) -> Samples:
        """Return how much every executor holds, from amounts by executor."""
        if not self.placed:
            return ()
        return [(self._labels(each), amounts.get(each, 0)) for each in self.executors]

    def _labels(self, executor: str) -> tuple[str, str]:
        return executor, str(self.executors[executor].get("host", ""))


def number_of(value: object) -> Number | None:
    """Return ``value`` where it is a number that a metric can have, else ``None``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= _LARGEST else None


def _in_units(value: object, per: Number) -> Number | None:
    number = number_of(value)
    return number if number is None or per == 1 else number / per


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
