"""What the demo came to: the JSON of the run-summary contract, and the same for people.

A change is told whole: what rows waited that were due from the moment it was decided until it was
done, while executors started and were warmed too, beside those of the ten batches before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elastream.cli.drawing import amount
from elastream.core.decisions import Decision
from elastream.demo.run import Demo
from elastream.model.checks import Number

if TYPE_CHECKING:
    from elastream.harness.commit_log import CommittedBatch
    from elastream.harness.response_time import Responses, Spread

__all__ = ["MigrationTold", "WaitsTold", "migrations_of", "shown", "summary", "waits_around"]

_CHANGES = frozenset({"scale-out", "scale-in", "rebalance", "move"})
_BATCHES_BEFORE = 10


@dataclass(frozen=True, slots=True)
class MigrationTold:
    """One change from its decision to its end, as the decision log tells it."""

    change: str
    reason: str
    completed: bool
    """Whether it was carried out to the end; else it was given up."""
    figures: dict[str, Number]
    """Those of its end."""
    asked_ms: int | None = None
    """When it was decided, in milliseconds since the epoch; ``None`` where nobody knows."""
    ended_ms: int | None = None

    @property
    def took_s(self) -> float | None:
        """From its decision to its end."""
        if self.asked_ms is None or self.ended_ms is None:
            return None
        return (self.ended_ms - self.asked_ms) / 1000

    def as_json(self, planner: str) -> dict[str, object]:
        """Return it in the names of the run summaries."""
        figures = self.figures
        return {
            "reason": self.reason,
            "from": figures["executors_before"],
            "to": figures["executors_after"],
            "planner": planner,
            "partitions_moved": figures["tasks_moved"],
            "state_bytes_moved": figures["state_bytes_moved"],
            "batches": figures["batches"],
            "worst_batch_ms": _whole(figures.get("worst_batch_ms")),
            "median_batch_ms_before": _whole(figures.get("median_batch_ms_before")),
        }


@dataclass(frozen=True, slots=True)
class WaitsTold:
    """What rows waited around one change."""

    before: Spread | None
    """Those of the ten batches before it was decided."""
    change: Spread | None
    """Those due from its decision to its end."""

    def as_json(self) -> dict[str, object]:
        """Return it beside what the run summaries ask for."""
        return {
            "response_before_ms": None if self.before is None else self.before.as_json(),
            "response_change_ms": None if self.change is None else self.change.as_json(),
        }


def waits_around(demo: Demo, told: MigrationTold) -> WaitsTold:
    """Return what rows waited before a change, and from its decision to its end."""
    from elastream.harness.response_time import spread

    if demo.start_ms is None or told.asked_ms is None or told.ended_ms is None:
        return WaitsTold(None, None)
    earlier = [batch for batch in demo.batches if batch.finished_ms <= told.asked_ms]
    whole = _responses(demo, demo.batches).between(told.asked_ms, told.ended_ms)
    return WaitsTold(spread(_responses(demo, earlier[-_BATCHES_BEFORE:])), spread(whole))


def migrations_of(decisions: Sequence[Decision]) -> tuple[MigrationTold, ...]:
    """Return every change that ended, in order."""
    found = []
    begun: Decision | None = None
    for decision in decisions:
        if decision.kind in _CHANGES:
            begun = decision
        elif decision.kind in ("done", "abandon") and begun is not None:
            completed = decision.kind == "done"
            reason = begun.reason if completed else decision.reason
            figures, span = dict(decision.figures), (begun.at_ms, decision.at_ms)
            found.append(MigrationTold(begun.kind, reason, completed, figures, *span))
            begun = None
    return tuple(found)


def summary(demo: Demo, seconds: float, error: str | None = None) -> dict[str, object]:
    """Return the summary of a run, also of one that failed with ``error``."""
    executors = [sample.executors for sample in demo.samples]
    policy = demo.settings.policy()
    result: dict[str, object] = {
        "rows": demo.rows_done,
        "exact": bool(demo.exact),
        "seconds": round(seconds, 1),
        "executors": {
            "min": min(executors, default=None),
            "max": max(executors, default=None),
            "final": executors[-1] if executors else None,
        },
        "response_ms": _response(demo),
        "migrations": [
            {
                **told.as_json(policy.planner_name),
                "asked_to_done_s": None if told.took_s is None else round(told.took_s, 1),
                **waits_around(demo, told).as_json(),
            }
            for told in migrations_of(demo.decisions)
        ],
    }
    return result if error is None else {**result, "error": error}


def shown(demo: Demo, seconds: float) -> RenderableType:
    """Return the summary for people."""
    verdict = (
        Text("exact", "bold green")
        if demo.exact
        else Text(f"{demo.wrong_words} words have a wrong count", "bold red")
    )
    response = _response(demo) or {}
    times = ", ".join(f"{name} {ms / 1000:.2f} s" for name, ms in response.items())
    lines = [
        Text.assemble(
            f"{demo.rows_done:,} posts in {seconds:.0f} s: ",
            verdict,
            " against a batch count of the same posts",
        ),
        Text(f"response time of a post: {times}"),
        Text(
            f"every word slept {demo.service_us:g} µs in the stateful stage, as a stand-in for work"
            if demo.service_us
            else "no service time: words cost only what counting costs",
            "dim",
        ),
    ]
    return Group(*lines, _table(demo))


def _table(demo: Demo) -> RenderableType:
    migrations = migrations_of(demo.decisions)
    if not migrations:
        return Text("nothing was scaled")
    table = Table(
        box=None,
        pad_edge=False,
        caption="waits: median / 99th percentile, of the rows of the ten batches before and of all "
        "rows due from the decision to the end",
        caption_justify="left",
    )
    names = ("change", "executors", "moved", "took", "wait before", "wait during", "")
    for name in names:
        table.add_column(name, justify="left" if name in ("change", "") else "right")
    for told in migrations:
        figures, waits = told.figures, waits_around(demo, told)
        table.add_row(
            told.change,
            f"{figures['executors_before']} → {figures['executors_after']}",
            f"{figures['tasks_moved']}, {amount(figures['state_bytes_moved'])}B",
            "-" if told.took_s is None else f"{told.took_s:.0f} s",
            _waits(waits.before),
            _waits(waits.change),
            "" if told.completed else "given up",
        )
    return table


def _response(demo: Demo) -> dict[str, int] | None:
    from elastream.harness.response_time import spread

    if demo.start_ms is None:
        return None
    found = spread(_responses(demo, demo.batches))
    return None if found is None else found.as_json()


def _responses(demo: Demo, batches: Sequence[CommittedBatch]) -> Responses:
    from elastream.harness.response_time import responses

    return responses(demo.recording.due_ms, demo.start_ms or 0, batches, first=demo.lead_rows)


def _waits(found: Spread | None) -> str:
    if found is None:
        return "-"
    return f"{found.median / 1000:.1f} / {found.p99 / 1000:.1f} s"


def _whole(value: Number | None) -> int | None:
    return None if value is None else round(value)
