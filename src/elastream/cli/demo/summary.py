"""What the demo came to: the JSON of the run-summary contract, and the same for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elastream.cli.drawing import amount
from elastream.demo.run import Demo
from elastream.loop.decisions import Decision
from elastream.model.checks import Number

__all__ = ["MigrationTold", "migrations_of", "shown", "summary"]

_CHANGES = frozenset({"scale-out", "scale-in", "rebalance", "move"})


@dataclass(frozen=True, slots=True)
class MigrationTold:
    """One change from its decision to its end, as the decision log tells it."""

    change: str
    reason: str
    completed: bool
    """Whether it was carried out to the end; else it was given up."""
    figures: dict[str, Number]
    """Those of its end."""

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
            told = MigrationTold(begun.kind, reason, completed, dict(decision.figures))
            found.append(told)
            begun = None
    return tuple(found)


def summary(demo: Demo, seconds: float, error: str | None = None) -> dict[str, object]:
    """Return the summary of a run, also of one that failed with ``error``."""
    executors = [sample.executors for sample in demo.samples]
    policy = demo.settings.policy()
    told: dict[str, object] = {
        "rows": demo.rows_done,
        "exact": bool(demo.exact),
        "seconds": round(seconds, 1),
        "executors": {
            "min": min(executors, default=None),
            "max": max(executors, default=None),
            "final": executors[-1] if executors else None,
        },
        "response_ms": _response(demo),
        "migrations": [m.as_json(policy.planner_name) for m in migrations_of(demo.decisions)],
    }
    return told if error is None else {**told, "error": error}


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
    return Group(*lines, _table(migrations_of(demo.decisions)))


def _table(migrations: Sequence[MigrationTold]) -> RenderableType:
    if not migrations:
        return Text("nothing was scaled")
    table = Table(box=None, pad_edge=False)
    for name in ("change", "executors", "partitions", "state", "batches", "worst", "before", ""):
        table.add_column(name, justify="left" if name in ("change", "") else "right")
    for told in migrations:
        figures = told.figures
        table.add_row(
            told.change,
            f"{figures['executors_before']} → {figures['executors_after']}",
            str(figures["tasks_moved"]),
            f"{amount(figures['state_bytes_moved'])}B",
            str(figures["batches"]),
            _seconds(figures.get("worst_batch_ms")),
            _seconds(figures.get("median_batch_ms_before")),
            "" if told.completed else "given up",
        )
    return table


def _response(demo: Demo) -> dict[str, int] | None:
    from elastream.harness.response_time import responses, spread

    if demo.start_ms is None:
        return None
    due_ms = demo.recording.due_ms
    found = spread(responses(due_ms, demo.start_ms, demo.batches, first=demo.lead_rows))
    return None if found is None else found.as_json()


def _whole(value: Number | None) -> int | None:
    return None if value is None else round(value)


def _seconds(ms: Number | None) -> str:
    return "-" if ms is None else f"{ms / 1000:.2f} s"
