"""The demo's result: the JSON of the run-summary contract, and the same for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elastream.cli.drawing import amount
from elastream.core.decisions import Decision
from elastream.demo.run import CountedFile, Demo
from elastream.model.checks import Number

_CHANGES = frozenset({"scale-out", "scale-in", "rebalance", "move"})
_BATCHES_BEFORE = 10

Response = dict[str, int] | None
"""Median, 99th percentile and worst response time of posts, in ms; ``None`` without posts."""


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

    def responses(self, files: Sequence[CountedFile]) -> tuple[Response, Response]:
        """Return the response times of the ten batches before it, and of posts due during it."""
        begin_ms, end_ms = self.span_ms
        before = [file for file in files if file.finished_ms <= begin_ms][-_BATCHES_BEFORE:]
        during = [file for file in files if begin_ms <= file.due_ms < end_ms]
        return _response(before), _response(during)


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


def _response(files: Sequence[CountedFile]) -> Response:
    if not files:
        return None
    waits_ms = np.repeat([file.response_ms for file in files], [file.posts for file in files])
    median, p99, worst = np.percentile(waits_ms, [50, 99, 100])
    return {"median": round(median), "p99": round(p99), "worst": round(worst)}


def summary(demo: Demo, seconds: float, error: str | None = None) -> dict[str, object]:
    """Return the summary of a run, also of one that failed with ``error``."""
    executors = [sample.executors for sample in demo.samples]
    result: dict[str, object] = {
        "rows": demo.posts_counted,
        "exact": demo.exact,
        "seconds": round(seconds, 1),
        "executors": {
            "min": min(executors, default=None),
            "max": max(executors, default=None),
            "final": executors[-1] if executors else None,
        },
        "response_ms": _response(demo.counted),
        "migrations": [_migration(demo, change) for change in changes_of(demo.decisions)],
    }
    return result if error is None else {**result, "error": error}


def _migration(demo: Demo, change: Change) -> dict[str, object]:
    figures = change.ended.figures
    before, during = change.responses(demo.counted)
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


def printed_summary(demo: Demo, seconds: float) -> RenderableType:
    """Return the summary for people."""
    wrong = f"{demo.wrong_words} words have a wrong count"
    verdict = Text("exact", "bold green") if demo.exact else Text(wrong, "bold red")
    response = _response(demo.counted) or {}
    times = ", ".join(f"{name} {ms / 1000:.2f} s" for name, ms in response.items())
    slept = f"every word slept {demo.service_us:g} µs in the stateful stage, in place of work"
    counted = f"{demo.posts_counted:,} posts in {seconds:.0f} s: "
    return Group(
        Text.assemble(counted, verdict, " against a batch count of the same posts"),
        Text(f"response time of a post: {times}"),
        Text(slept, "dim"),
        _table(demo),
    )


def _table(demo: Demo) -> RenderableType:
    changes = changes_of(demo.decisions)
    if not changes:
        return Text("nothing was scaled")
    caption = (
        "response: median / 99th percentile, of the ten batches before the change, and of the "
        "posts due from the decision to the end"
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
            *map(_cell, change.responses(demo.counted)),
        )
    return table


def _cell(found: Response) -> str:
    return f"{found['median'] / 1000:.1f} / {found['p99'] / 1000:.1f} s" if found else "-"
