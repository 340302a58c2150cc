"""Live migration against a restart: paper 000, figure 15 (001, figure 11), with a verdict.

By the definitions of the benchmark: from the moment the change is asked for, preparation included,
until the query is steady again. The papers' change is a scale-in, from 10 workers to 8, and what
they draw is the mean of each minute; here the mean of each batch is drawn, a finer line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from elastream_lab.benchmarks.migration.bench import BenchResult, BenchSettings
from elastream_lab.studies.figure import Curves, Figure

FIGURE_MECHANISMS: Final = ("live", "restart")
_SEVERAL: Final = 2.0
"""Orders of magnitude that count as several."""


def restart_figures(results: Sequence[BenchResult], settings: BenchSettings) -> tuple[Figure, ...]:
    """Return what each change came to, and the response time around those that scale in."""
    few, many = settings.executors
    data = (
        f"made posts, ballast of {max(settings.states) / 1e6:.3g} MB for state, {few} and {many} "
        f"executors of one machine, {settings.work} work"
    )
    rows = [_row(result) for result in results]
    orders = {way: _orders(results, way) for way in ("in", "out")}
    exact = all(result.exact for result in results)
    report = "; ".join(
        f"{few if way == 'out' else many} to {many if way == 'out' else few}: "
        + ("not measured" if found is None else f"a factor of {10**found:.0f}")
        for way, found in orders.items()
    )
    scale_in = orders["in"]
    return (
        Figure(
            "000 fig. 15, 001 fig. 11",
            data,
            rows,
            None,
            exact and scale_in is not None and scale_in >= _SEVERAL,
            "The papers' live migration lowers the mean response time by several orders of "
            "magnitude; here, by the 99th percentile of the rows due during the change, restart "
            f"over live: {report}. {_added(results)}"
            f"{'All runs were exact.' if exact else 'NOT all were exact.'}",
        ),
        Figure(
            "000 fig. 15, 001 fig. 11 (batches)",
            f"{data}, {many} to {few}",
            _around(results),
            Curves("since_asked_s", ("mean_response_s",), "mechanism", log=True),
            _is_higher(results),
            "The papers' restart stands far above live from the change on, and comes back; here "
            "the highest mean of a batch is that of restart where the verdict says so.",
        ),
    )


def _row(result: BenchResult) -> dict[str, Any]:
    figures, fields = result.figures, result.figures.as_json()
    response = fields["response_ms"]
    assert isinstance(response, dict)  # as it was made
    change, steady = (response[part] or {} for part in ("change", "steady"))
    return {
        "mechanism": result.change.mechanism,
        "direction": result.change.direction,
        "repeat": result.repeat,
        "exact": result.exact,
        "steady_p99_ms": steady.get("p99"),
        "change_median_ms": change.get("median"),
        "change_p99_ms": change.get("p99"),
        "added_p99_ms": fields["added_p99_ms"],
        "longest_gap_ms": fields["longest_gap_ms"],
        "asked_to_settled_s": fields["asked_to_settled_s"],
        "steady_again": figures.steady_again,
        "rows_late": figures.rows_late,
    }


def _added(results: Sequence[BenchResult]) -> str:
    """Return what the scale-in adds to the wait, which the floor of a batch does not hide."""
    added = {
        name: [
            value
            for result in _scaled_in(results)
            if result.change.mechanism == name
            and (value := result.figures.added_p99_ms) is not None
        ]
        for name in FIGURE_MECHANISMS
    }
    if not all(added.values()):
        return ""
    live, restart = (median(added[name]) / 1000 for name in FIGURE_MECHANISMS)
    return f"The scale-in adds {live:.2f} s to that under live, {restart:.2f} s under restart. "


def _orders(results: Sequence[BenchResult], direction: str) -> float | None:
    """Return by how many powers of ten a row waits longer under a restart."""
    p99 = {
        name: [
            result.figures.change.p99
            for result in results
            if (result.change.mechanism, result.change.direction) == (name, direction)
            and result.figures.change is not None
        ]
        for name in FIGURE_MECHANISMS
    }
    if not all(p99.values()):
        return None
    live, restart = (median(p99[name]) for name in FIGURE_MECHANISMS)
    return math.log10(restart / live)


def _scaled_in(results: Sequence[BenchResult]) -> list[BenchResult]:
    return [result for result in results if result.change.direction == "in"]


def _around(results: Sequence[BenchResult]) -> list[dict[str, Any]]:
    return [
        {
            "mechanism": f"{result.change.mechanism}, {result.repeat}",
            "since_asked_s": round(at_s, 2),
            "mean_response_s": round(mean_s, 3),
        }
        for result in _scaled_in(results)
        for at_s, mean_s in result.series
    ]


def _is_higher(results: Sequence[BenchResult]) -> bool:
    """Whether the highest batch of every restart is above that of every live change."""
    highest: dict[str, list[float]] = {name: [] for name in FIGURE_MECHANISMS}
    for result in _scaled_in(results):
        highest[result.change.mechanism].append(max(mean_s for _, mean_s in result.series))
    live, restart = (highest[name] for name in FIGURE_MECHANISMS)
    return bool(live and restart) and min(restart) > max(live)
