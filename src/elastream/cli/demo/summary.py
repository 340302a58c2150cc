"""The demo's result: the JSON of the run-summary contract, and the same for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elastream.cli.drawing import amount
from elastream.core.decisions import Decision
from elastream.demo.demo_run import DemoRun
from elastream.demo.realtime import RealtimeDemo
from elastream.model.checks import Number

AROUND_BOUNDARY_MS = 1000.0
_LEAST_IN_SECONDS_MS = 1000
_CHANGES = frozenset({"scale-out", "scale-in", "rebalance", "move"})

Response = dict[str, int] | None
"""Median, 99th percentile and worst response time of rows, in ms; ``None`` without rows."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change from its decision to its end, as the decision log has it."""

    begun: Decision
    ended: Decision

    @property
    def completed(self) -> bool:
        """Whether it was carried out; else it was given up."""
        return self.ended.kind == "done"

    @property
    def span_ms(self) -> tuple[int, int]:
        """From its decision to its end, which is logged when it was seen what it brought."""
        begin_ms = self.begun.at_ms or 0
        return begin_ms, begin_ms + round(1000 * self.took_s)

    @property
    def took_s(self) -> float:
        """How long that was."""
        return float(self.ended.figures["seconds"])

    def responses(self, demo: DemoRun) -> tuple[Response, Response]:
        """Return the response times shortly before it, and of rows due during it."""
        begin_ms, end_ms = self.span_ms
        before, during = demo.waits_before(begin_ms), demo.waits_between(begin_ms, end_ms)
        return response_of(before), response_of(during)


def changes_of(decisions: Sequence[Decision]) -> tuple[Change, ...]:
    """Return every change that ended, in order."""
    found = []
    begun: Decision | None = None
    for decision in decisions:
        if decision.kind in _CHANGES:
            begun = decision
        elif decision.kind in ("done", "abandon") and begun is not None:
            found.append(Change(begun, decision))
            begun = None
    return tuple(found)


def response_of(waits_ms: Sequence[float]) -> Response:
    """Return what waits come to."""
    if not waits_ms:
        return None
    median, p99, worst = np.percentile(waits_ms, [50, 99, 100])
    return {"median": round(median), "p99": round(p99), "worst": round(worst)}


def duration(ms: float) -> str:
    """Return a time for people."""
    return f"{ms:.0f} ms" if ms < _LEAST_IN_SECONDS_MS else f"{ms / 1000:.1f} s"


def summary(demo: DemoRun, seconds: float, error: str | None = None) -> dict[str, object]:
    """Return the summary of a run, also of one that failed with ``error``."""
    executors = [sample.executors for sample in demo.samples]
    result: dict[str, object] = {
        "rows": demo.rows,
        "exact": demo.exact,
        "seconds": round(seconds, 1),
        "executors": {
            "min": min(executors, default=None),
            "max": max(executors, default=None),
            "final": executors[-1] if executors else None,
        },
        "response_ms": response_of(demo.waits_ms()),
        "migrations": [_migration(demo, change) for change in changes_of(demo.decisions)],
    }
    if isinstance(demo, RealtimeDemo):
        apart = demo.waits_apart(AROUND_BOUNDARY_MS)
        result["between_boundaries_ms"] = response_of(apart)
        result["boundaries"] = [
            {"batch": each.batch, "at_s": round(demo.since_s(each.at_ms), 1), "gap_ms": each.gap_ms}
            for each in demo.boundaries()
        ]
    return result if error is None else {**result, "error": error}


def _migration(demo: DemoRun, change: Change) -> dict[str, object]:
    figures = change.ended.figures
    before, during = change.responses(demo)
    return {
        "reason": (change.begun if change.completed else change.ended).reason,
        "from": figures["executors_before"],
        "to": figures["executors_after"],
        "planner": demo.planner,
        "partitions_moved": figures["tasks_moved"],
        "state_bytes_moved": figures["state_bytes_moved"],
        "batches": figures["batches"],
        "worst_batch_ms": _rounded(figures.get("worst_batch_ms")),
        "median_batch_ms_before": _rounded(figures.get("median_batch_ms_before")),
        "asked_to_done_s": round(change.took_s, 1),
        "response_before_ms": before,
        "response_change_ms": during,
    }


def _rounded(value: Number | None) -> int | None:
    return None if value is None else round(value)


def printed_summary(demo: DemoRun, seconds: float) -> RenderableType:
    """Return the summary for people."""
    wrong = f"{demo.wrong_words} words have a wrong count"
    verdict = Text("exact", "bold green") if demo.exact else Text(wrong, "bold red")
    counted = f"{demo.rows:,} {demo.rows_name} in {seconds:.0f} s: "
    return Group(
        Text.assemble(counted, verdict, " against a batch count of the same posts"),
        *(Text(line) for line in _responses(demo)),
        Text(demo.work, "dim"),
        _table(demo),
    )


def _responses(demo: DemoRun) -> Iterator[str]:
    yield f"response time: {_times(response_of(demo.waits_ms()))}"
    if isinstance(demo, RealtimeDemo):
        apart = response_of(demo.waits_apart(AROUND_BOUNDARY_MS))
        yield f"more than a second from a boundary between batches: {_times(apart)}"
        gaps_ms = [each.gap_ms for each in demo.boundaries()]
        if gaps_ms:
            median, worst = np.percentile(gaps_ms, [50, 100])
            yield f"gap at a boundary: median {duration(median)}, worst {duration(worst)}"


def _times(response: Response) -> str:
    return ", ".join(f"{name} {duration(ms)}" for name, ms in (response or {}).items()) or "-"


def _table(demo: DemoRun) -> RenderableType:
    changes = changes_of(demo.decisions)
    if not changes:
        return Text("nothing was scaled")
    caption = (
        f"response: median / 99th percentile, {demo.before}, and of the {demo.rows_name} due from "
        "the decision to the end"
    )
    table = Table(box=None, pad_edge=False, caption=caption, caption_justify="left")
    table.add_column("change")
    for name in ("executors", "moved", "took", "response before", "during"):
        table.add_column(name, justify="right")
    for change in changes:
        figures = change.ended.figures
        table.add_row(
            change.begun.kind if change.completed else f"{change.begun.kind}, given up",
            f"{figures['executors_before']} → {figures['executors_after']}",
            f"{figures['tasks_moved']}, {amount(figures['state_bytes_moved'])}B",
            f"{change.took_s:.0f} s",
            *map(_cell, change.responses(demo)),
        )
    return table


def _cell(found: Response) -> str:
    return f"{duration(found['median'])} / {duration(found['p99'])}" if found else "-"
