"""The handover study as figures 4, 5 and 6 of paper 002, with tables of what a handover costs.

The paper shows, for each query, the output with and without a migration around the migration point,
and the response time two seconds before to two seconds after it. Here both outputs are compared
whole, with each other and with a plain computation, and the response times are averaged over half
seconds and all repeats for the picture, and over the four seconds for the verdict
(:mod:`~elastream_lab.studies.handover.verdict`).

AQSIOS answers a tuple in milliseconds; Spark answers at the end of a micro-batch. The level differs
by that, and the question is the same: does the handover show?
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from elastream_lab.studies.figure import Curves, Figure, rises
from elastream_lab.studies.handover.break_even import (
    HandoverCost,
    break_even_length_s,
    handover_cost,
    migration_cost,
)
from elastream_lab.studies.handover.outputs import WrittenOutput, responses, spread
from elastream_lab.studies.handover.run import QueryRun
from elastream_lab.studies.handover.settings import AROUND_MS, HandoverSettings
from elastream_lab.studies.handover.verdict import Verdict, around, verdict

_BIN_MS: Final = 500
_SLIDE_S: Final = 0.001
"""The windows of the joins slide with every tick of their timestamps."""
_BYTES_PER_S: Final = 125_000_000
_RESTART_S: Final = 10.0
_STATES: Final = (0, 10**9, 10**10, 10**11)
HANDED: Final = "with a handover"
ALONE: Final = "without"


def response_figure(runs: Sequence[QueryRun], settings: HandoverSettings) -> Figure:
    """Return the response times around the handover, over all repeats, and the verdict."""
    query, found = runs[0].query, verdict(runs)
    rows = [
        *_curve(HANDED, [(run, run.handed) for run in runs]),
        *_curve(ALONE, [(run, run.alone) for run in runs]),
    ]
    return Figure(
        f"002 fig. {query.figure}",
        _data(runs, settings),
        rows,
        Curves("seconds_from_handover", ("response_ms",), "run"),
        all(run.is_exact for run in runs) and found is not None and found.is_quiet,
        _says(runs, found),
    )


def response_table(
    queries: Sequence[Sequence[QueryRun]], settings: HandoverSettings
) -> tuple[Figure, Figure]:
    """Return the response times of every repeat, both runs; and what the repeats say."""
    found = [(runs[0].query.name, len(runs), verdict(runs)) for runs in queries]
    quiet = [name for name, _, entry in found if entry is not None and entry.is_quiet]
    noisy = [
        f"{name}: {'nothing to compare' if entry is None else entry.seen}"
        for name, _, entry in found
        if entry is None or not entry.is_quiet
    ]
    seen = ", ".join(quiet) or "none"
    data = (
        "response times of results due two seconds before to two seconds after the handover, "
        f"a batch every {settings.trigger_s:g} s, {settings.told_masters}"
    )
    says = (
        "The paper: the mean response time around the migration differs from that without one by "
        "at most a fiftieth of its deviation, in one run; here the 95 % interval of the difference "
        f"over repeats lies within the deviation for {seen}"
        f"{'; ' if noisy else ''}{'; '.join(noisy)}."
    )
    each = [
        {"query": run.query.name, "repeat": i + 1, **_pair(run)}
        for runs in queries
        for i, run in enumerate(runs)
    ]
    summary = [{"query": name, "repeats": n, **_verdict_members(entry)} for name, n, entry in found]
    return (
        Figure("002 section 4.1 and 4.2, each repeat", data, each, None, not noisy, says),
        Figure("002 section 4.1 and 4.2", data, summary, None, not noisy, says),
    )


def cost_table(runs: Sequence[QueryRun], settings: HandoverSettings) -> Figure:
    """Return what each handover cost, a row for each; what is expected of windows of time."""
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
    named: dict[str, list[QueryRun]] = {}
    for run in runs:
        named.setdefault(run.query.name, []).append(run)
    twice = ", ".join(f"{_to(each.rows_twice for each in of)} in {q}" for q, of in named.items())
    stopped = ", ".join(
        f"{_to(each.stopped_in_ms / 1000 for each in of)} s in {q}" for q, of in named.items()
    )
    same = "equals" if exact else "DIFFERS from"
    return Figure(
        "002 section 4",
        f"two applications on one machine, {settings.told_masters}, range {settings.range_s:g} s, "
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


def _pair(run: QueryRun) -> dict[str, float | int | bool | None]:
    handed, alone = around(run, run.handed), around(run, run.alone)
    return {
        "exact": run.is_exact,
        "mean_ms": None if handed is None else handed.mean_ms,
        "deviation_ms": None if handed is None else handed.deviation_ms,
        "worst_ms": None if handed is None else handed.worst_ms,
        "alone_mean_ms": None if alone is None else alone.mean_ms,
        "alone_deviation_ms": None if alone is None else alone.deviation_ms,
        "alone_worst_ms": None if alone is None else alone.worst_ms,
        "outputs": 0 if handed is None else handed.outputs,
    }


def _verdict_members(outcome: Verdict | None) -> dict[str, float | str | None]:
    return {
        "difference_ms": None if outcome is None else outcome.difference_ms,
        "interval_ms": None if outcome is None else outcome.half_ms,
        "bound_ms": None if outcome is None else outcome.bound_ms,
        "handover": "nothing to compare" if outcome is None else outcome.seen,
    }


def _curve(
    name: str, written: Sequence[tuple[QueryRun, Sequence[WrittenOutput]]]
) -> list[dict[str, object]]:
    """Return the mean response time of each half second; one without results is left out."""
    found = [
        (due - run.handover_ms, response)
        for run, outputs in written
        for due, response in responses(outputs, run.due_ms)
    ]
    rows: list[dict[str, object]] = []
    for begin_ms in range(-AROUND_MS, AROUND_MS, _BIN_MS):
        near = spread(found, begin_ms, begin_ms + _BIN_MS)
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


def _data(runs: Sequence[QueryRun], settings: HandoverSettings) -> str:
    compared = f"{sum(len(run.due_ms) for run in runs)} results compared row by row"
    name, repeats = runs[0].query.name, f"{len(runs)} repeats from seed {settings.seed} on"
    return f"{name}, {repeats}, {compared}, two seconds before and after"


def _says(runs: Sequence[QueryRun], found: Verdict | None) -> str:
    with_, with_dev, without, without_dev = runs[0].query.paper_ms
    paper = (
        f"The paper: the same output, and {with_:g} ms (deviation {with_dev:g}) with a migration "
        f"against {without:g} ms ({without_dev:g}) without"
    )
    output = "the same output" if all(run.is_exact for run in runs) else "ANOTHER output"
    if found is None:
        return f"{paper}; here {output}, and no result is due around the handover."
    return (
        f"{paper}; here {output}, and {found.difference_ms:+.0f} ms with a handover (interval "
        f"{found.half_ms:.0f}, over repeats; the deviation is {found.bound_ms:.0f}): it "
        f"{found.seen}."
    )


def _to(values: Iterable[float]) -> str:
    """Return the least and the greatest, or the one there is."""
    found = sorted(values)
    low, high = f"{found[0]:.4g}", f"{found[-1]:.4g}"
    return low if low == high else f"{low} to {high}"
