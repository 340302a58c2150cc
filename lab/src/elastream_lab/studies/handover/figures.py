"""The handover study as figures 4, 5 and 6 of paper 002, with tables of what a handover costs.

The paper shows, for each query, the output with and without a migration around the migration point,
and the response time two seconds before to two seconds after it. Here both outputs are compared
whole, with each other and with a plain computation, and the response times are averaged over half
seconds for the picture and over the four seconds for the verdict: the trend holds where the outputs
are equal and the two means differ by no more than the deviation of the run without a handover,
which is what the paper's own figures show.

AQSIOS answers a tuple in milliseconds; Spark answers at the end of a micro-batch. The level differs
by that, and the question is the same: does the handover show?
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from elastream_lab.studies.figure import Curves, Figure, rises
from elastream_lab.studies.handover.cost import (
    HandoverCost,
    break_even_length_s,
    handover_cost,
    migration_cost,
)
from elastream_lab.studies.handover.outputs import ResponsesAround, WrittenOutput, responses, spread
from elastream_lab.studies.handover.run import AROUND_MS, HandoverSettings, QueryRun

__all__ = ["choice_table", "cost_table", "response_figure", "response_table"]

_BIN_MS: Final = 500
_SLIDE_S: Final = 0.001
"""The windows of the joins slide with every tick of their timestamps."""
_BYTES_PER_S: Final = 125_000_000
_RESTART_S: Final = 10.0
_STATES: Final = (0, 10**9, 10**10, 10**11)
HANDED: Final = "with a handover"
ALONE: Final = "without"


def response_figure(run: QueryRun, settings: HandoverSettings) -> Figure:
    """Return the response times around the handover, both runs, and the verdict."""
    handed = _around(run, (*run.by_origin, *run.by_target))
    alone = _around(run, run.alone)
    rows = [
        *_curve(run, HANDED, (*run.by_origin, *run.by_target)),
        *_curve(run, ALONE, run.alone),
    ]
    return Figure(
        f"002 fig. {run.query.figure}",
        _data(run, settings),
        rows,
        Curves("seconds_from_handover", ("response_ms",), "run"),
        run.is_exact and _is_quiet(run),
        _says(run, handed, alone),
    )


def response_table(runs: Sequence[QueryRun], settings: HandoverSettings) -> Figure:
    """Return mean and deviation of the response times in the four seconds, both runs."""
    rows = [
        {"query": run.query.name, "run": name, **_told(_around(run, written))}
        for run in runs
        for name, written in (
            (HANDED, (*run.by_origin, *run.by_target)),
            (ALONE, run.alone),
        )
    ]
    quiet = [run.query.name for run in runs if _is_quiet(run)]
    noisy = [run.query.name for run in runs if not _is_quiet(run)]
    seen = f"within it for {', '.join(quiet)}" if quiet else "within it for none"
    beyond = f", beyond it for {', '.join(noisy)}" if noisy else ""
    return Figure(
        "002 section 4.1 and 4.2",
        f"response times of results due two seconds before to two seconds after the handover, "
        f"a batch every {settings.trigger_s:g} s",
        rows,
        None,
        not noisy,
        "The paper: the mean response time around the migration differs from that without one by "
        "at most a fiftieth of its deviation; here the difference, held against the deviation of "
        f"the run without a handover, is {seen}{beyond}.",
    )


def cost_table(runs: Sequence[QueryRun], settings: HandoverSettings) -> Figure:
    """Return what each handover cost, a row for each query; what is expected of windows of time."""
    rows = [
        {
            "query": run.query.name,
            "exact": run.is_exact,
            "by_origin": len(run.by_origin),
            "by_target": len(run.by_target),
            "rows_twice": run.rows_twice,
            "joined_ms": run.joined_in_ms,
            "decided_ms": run.decided_in_ms,
            "stopped_ms": run.stopped_in_ms,
            **_expected_members(run, settings),
        }
        for run in runs
    ]
    exact = all(run.is_exact for run in runs)
    twice = ", ".join(f"{run.rows_twice} in {run.query.name}" for run in runs)
    stopped = ", ".join(f"{run.stopped_in_ms / 1000:.1f} s in {run.query.name}" for run in runs)
    same = "equals" if exact else "DIFFERS from"
    return Figure(
        "002 section 4",
        f"two applications with local[1] on one machine, range {settings.range_s:g} s, "
        f"a reading every {settings.gap_ms} ms a stream",
        rows,
        None,
        exact,
        "The paper: the hand-off loses nothing and costs only the overlap, processed twice; here "
        f"the output {same} that of an uninterrupted run, readings processed twice: {twice}; from "
        f"the target's joining to the origin's last window it took {stopped}.",
    )


def choice_table(settings: HandoverSettings) -> Figure:
    """Return up to which window a handover relieves the origin sooner than moving the state."""
    rate, handed = _rows_per_s(settings), _expected(settings)
    rows: list[dict[str, Any]] = []
    for state_bytes in _STATES:
        link = {"bytes_per_s": _BYTES_PER_S, "restart_s": _RESTART_S, "state_bytes": state_bytes}
        moved = migration_cost(rows_per_s=rate, **link)
        rows.append(
            {
                "state_bytes": state_bytes,
                "migrating_s": moved.relief_s,
                "rows_late": moved.rows_late,
                "handing_over_s": handed.relief_s,
                "rows_twice": handed.rows_twice,
                "break_even_range_s": break_even_length_s(slide_s=_SLIDE_S, **link),
            }
        )
    sooner = [row["state_bytes"] for row in rows if row["handing_over_s"] < row["migrating_s"]]
    return Figure(
        "002 section 1",
        f"by the model alone: {rate:g} rows a second, range {settings.range_s:g} s, state over a "
        f"link of {_BYTES_PER_S:,} bytes a second, {_RESTART_S:g} s to stop and start (assumed)",
        rows,
        None,
        rises([row["break_even_range_s"] for row in rows]),
        "The paper: no state moves, but windows that are too large keep the origin busy; here "
        f"a handover relieves it sooner than moving {len(sooner)} of {len(rows)} states would, and "
        "the range up to which it does grows with the state.",
    )


def _expected_members(run: QueryRun, settings: HandoverSettings) -> dict[str, float | None]:
    expected = _expected(settings) if run.query.joins else None
    return {
        "expected_rows_twice": None if expected is None else expected.rows_twice,
        "expected_stopped_ms": None if expected is None else 1000 * expected.relief_s,
    }


def _expected(settings: HandoverSettings) -> HandoverCost:
    """Return what handing over a join is expected to cost."""
    return handover_cost(
        length_s=settings.range_s, slide_s=_SLIDE_S, rows_per_s=_rows_per_s(settings)
    )


def _rows_per_s(settings: HandoverSettings) -> float:
    """Return how fast the readings of both streams come."""
    return 2 * 1000 / settings.gap_ms


def _told(around: ResponsesAround | None) -> dict[str, float | int | None]:
    return {
        "mean_ms": None if around is None else around.mean_ms,
        "deviation_ms": None if around is None else around.deviation_ms,
        "worst_ms": None if around is None else around.worst_ms,
        "outputs": 0 if around is None else around.outputs,
    }


def _is_quiet(run: QueryRun) -> bool:
    """Tell whether the handover does not show in the response times."""
    handed, alone = _around(run, (*run.by_origin, *run.by_target)), _around(run, run.alone)
    if handed is None or alone is None:
        return False
    return abs(handed.mean_ms - alone.mean_ms) <= alone.deviation_ms


def _around(run: QueryRun, written: Sequence[WrittenOutput]) -> ResponsesAround | None:
    return spread(
        responses(written, run.due_ms), run.handover_ms - AROUND_MS, run.handover_ms + AROUND_MS
    )


def _curve(run: QueryRun, name: str, written: Sequence[WrittenOutput]) -> list[dict[str, object]]:
    """Return the mean response time of each half second; one without results is left out."""
    found = responses(written, run.due_ms)
    rows: list[dict[str, object]] = []
    for begin_ms in range(-AROUND_MS, AROUND_MS, _BIN_MS):
        near = spread(found, run.handover_ms + begin_ms, run.handover_ms + begin_ms + _BIN_MS)
        if near is not None:
            rows.append(
                {
                    "run": name,
                    "seconds_from_handover": (begin_ms + _BIN_MS / 2) / 1000,
                    "response_ms": near.mean_ms,
                    "outputs": near.outputs,
                }
            )
    return rows


def _data(run: QueryRun, settings: HandoverSettings) -> str:
    compared = f"{len(run.due_ms)} results compared row by row"
    return f"{run.query.name}, seed {settings.seed}, {compared}, two seconds before and after"


def _says(run: QueryRun, handed: ResponsesAround | None, alone: ResponsesAround | None) -> str:
    with_, with_dev, without, without_dev = run.query.paper_ms
    paper = (
        f"The paper: the same output, and {with_:g} ms (deviation {with_dev:g}) with a migration "
        f"against {without:g} ms ({without_dev:g}) without"
    )
    output = "the same output" if run.is_exact else "ANOTHER output"
    if handed is None or alone is None:
        return f"{paper}; here {output}, and no result is due around the handover."
    return (
        f"{paper}; here {output}, and {handed.mean_ms:.0f} ms ({handed.deviation_ms:.0f}) with a "
        f"handover against {alone.mean_ms:.0f} ms ({alone.deviation_ms:.0f}) without."
    )
