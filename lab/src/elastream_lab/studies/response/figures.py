"""The figures of the study, each with a verdict on what the papers claim.

A figure's delay of a planner is the mean over the migrations of a run; of several repeats it is the
median, with the least and the most next to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any, Final

from elastream_lab.studies.figure import Curves, Figure
from elastream_lab.studies.response.costs import Costs
from elastream_lab.studies.response.planning import EVEN, HASHED
from elastream_lab.studies.response.turns import Measured

RAW: Final = "each migration on executors"
COSTS: Final = "what they cost there"
_OURS: Final = ("single-step", "transition")
"""The papers' own two strategies."""

Row = Mapping[str, Any]


def window_figures(measured: Sequence[Measured], where: str, data: str) -> tuple[Figure, ...]:
    """Return delay against window for each application; ``where`` it was measured."""
    applications = list(dict.fromkeys(each.application for each in measured))
    return tuple(
        _window_figure([each for each in measured if each.application == name], name, where, data)
        for name in applications
    )


def raw_table(measured: Sequence[Measured], wrong_ticks: int, data: str) -> Figure:
    """Return every migration as it was measured; later runs may take it in again."""
    report = "none was" if wrong_ticks == 0 else f"{wrong_ticks} were"
    return Figure(
        RAW,
        data,
        [each.as_json() for each in measured],
        None,
        wrong_ticks == 0,
        "Every tick must be reported as the plain miner has it, through all migrations; here "
        f"{report} differed.",
    )


def cost_table(costs: Sequence[Costs], data: str) -> Figure:
    """Return what the simulated cluster is given."""
    moves = [each.moves for each in costs]
    return Figure(
        COSTS,
        data,
        [each.as_json() for each in costs],
        None,
        all(moves),
        "Of no paper: what a post, a batch and a move take on real executors, for the simulated "
        f"cluster; it needs moves in every case, and saw {min(moves)} at least.",
    )


def _window_figure(measured: Sequence[Measured], application: str, where: str, data: str) -> Figure:
    rows = [
        _row([each for each in measured if (each.window, each.planner) == case])
        for case in sorted(
            {(each.window, each.planner) for each in measured}, key=_in_order(measured)
        )
    ]
    delays: dict[str, dict[int, float]] = {}
    for row in rows:
        delays.setdefault(row["planner"], {})[row["window"]] = row["mean_ms"]
    holds, said = judged(_claims(delays))
    return Figure(
        f"000 fig. 13, 001 fig. 16 ({application}, {where})",
        data,
        rows,
        Curves("window", ("mean_ms",), "planner"),
        holds,
        f"The papers say, and here: {said}. {_apart(rows)}",
    )


def _in_order(measured: Sequence[Measured]) -> Callable[[tuple[int, str]], tuple[int, int]]:
    planners = list(dict.fromkeys(each.planner for each in measured))
    return lambda case: (case[0], planners.index(case[1]))


def _row(measured: Sequence[Measured]) -> dict[str, Any]:
    """Return the figures of one planner at one window."""
    repeats: dict[int, list[Measured]] = {}
    for each in measured:
        repeats.setdefault(each.repeat, []).append(each)

    def over(column: str) -> list[float]:
        values = [
            [value for each in of if (value := getattr(each, column)) is not None]
            for of in repeats.values()
        ]
        return [fmean(known) for known in values if known]

    means, p99s, added = over("mean_ms"), over("p99_ms"), over("added_p99_ms")
    return {
        "window": measured[0].window,
        "planner": measured[0].planner,
        "mean_ms": median(means),
        "mean_least_ms": min(means),
        "mean_most_ms": max(means),
        "p99_ms": median(p99s),
        "p99_least_ms": min(p99s),
        "p99_most_ms": max(p99s),
        "added_p99_ms": median(added) if added else None,
        "settled_s": median(over("settled_s")),
        "state_moved_percent": median(over("state_moved_percent")),
        "tasks_moved": median(over("tasks_moved")),
        "imbalance": median(over("imbalance")),
        "migrations": len(measured),
        "repeats": len(repeats),
    }


def _claims(delays: Mapping[str, Mapping[int, float]]) -> dict[str, bool | None]:
    """Return what the papers claim, and whether it is so; ``None`` where it was not tried.

    ``delays``: of each planner, by window.
    """

    def less(one: str, other: str) -> bool | None:
        ours, theirs = delays.get(one, {}), delays.get(other, {})
        both = ours.keys() & theirs.keys()
        return all(ours[window] < theirs[window] for window in both) if both else None

    grows = [of[max(of)] > of[min(of)] for of in delays.values() if len(of) > 1]
    others = [less(name, EVEN) for name in delays if name != EVEN]
    return {
        "the delay grows with the window under every planner": all(grows) if grows else None,
        **{f"{name} waits less than consistent hashing": less(name, HASHED) for name in _OURS},
        "transition waits less than single-step": less("transition", "single-step"),
        "even split (Storm) waits longest": all(others) if others and EVEN in delays else None,
    }


def judged(claims: Mapping[str, bool | None]) -> tuple[bool, str]:
    """Return whether all claims that were tried hold, and what is to be said of each."""
    words = {True: "yes", False: "NO", None: "not tried"}
    tried = [held for held in claims.values() if held is not None]
    said = "; ".join(f"{claim}: {words[held]}" for claim, held in claims.items())
    return bool(tried) and all(tried), said


def _apart(rows: Sequence[Row]) -> str:
    """Return how far planners are apart, next to how far repeats of one are."""
    between = []
    for window in dict.fromkeys(row["window"] for row in rows):
        means = [row["mean_ms"] for row in rows if row["window"] == window]
        between.append(max(means) / min(means) - 1)
    if max(row["repeats"] for row in rows) < 2:
        within = "there was one run of each"
    else:
        widest = max(row["mean_most_ms"] / row["mean_least_ms"] - 1 for row in rows)
        within = f"runs of one planner by up to {widest:.0%}"
    report = " to ".join(f"{each:.0%}" for each in dict.fromkeys((min(between), max(between))))
    return f"At one window the planners' mean delays differ by {report}; {within}."
