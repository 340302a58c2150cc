"""Figure 18 of paper 003 on Spark: what the replays come to, and whether the trend holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from elastream.model.errors import ProblemError
from elastream_lab.applications.traffic.aggregations import AGGREGATIONS
from elastream_lab.studies.earlier import written_figures
from elastream_lab.studies.figure import Curves, Figure, Value
from elastream_lab.studies.machine import MUCH
from elastream_lab.studies.resilience.replays import (
    SUBSTREAMS,
    Replayed,
    SparkLatency,
    replays,
)

_EACH: Final = "003 fig. 18 (on Spark, each replay)"

_OURS: Final = ("rod", "refined")
_COLUMNS: Final = ("worst_utilisation", "mean_response_ms", "worst_response_ms")
"""In which ROD is to be lowest at every level; the paper's are the last two."""


def latency_on_spark(
    study: SparkLatency, say: Callable[[str], None], found: list[Replayed]
) -> tuple[Figure, ...]:
    """Run the study on an embedded cluster and return its figures; what is found is added."""
    replays(study, say, found)
    return replayed_figures(found, study)


def earlier_replays(paths: Iterable[Path], study: SparkLatency) -> list[Replayed]:
    """Return what earlier runs of the study wrote, but for what the host disturbed."""
    known: dict[tuple[str, int, float], Replayed] = {}
    for path in paths:
        figure = written_figures(path).get(_EACH)
        if figure is None:
            raise ProblemError(str(path), "has no replays on executors: a run on Spark writes them")
        data = str(figure.get("data"))
        if f"{_how(study)};" not in f"{data};":
            raise ProblemError(str(path), f"was run otherwise: {data}; now {_how(study)}")
        try:
            found = [Replayed.of_row(row) for row in figure.get("rows", ())]
        except (KeyError, TypeError) as error:
            raise ProblemError(str(path), f"has a row without {error}") from None
        for one in found:
            if one.method not in study.methods:
                raise ProblemError(str(path), f"has {one.method}, which `methods` does not name")
            if one.repeat < study.repeats and one.stolen <= MUCH:
                known.setdefault((one.method, one.repeat, one.level), one)
    return list(known.values())


def replayed_so_far(found: Sequence[Replayed], study: SparkLatency) -> tuple[Figure, ...]:
    """Return the figures of the bursts that every placement has had at every level, if any.

    The replays by themselves are all there, so that the study can go on from them.
    """
    all_of_it = len(study.methods) * len(study.levels)
    replayed = Counter(one.repeat for one in found)
    whole = [one for one in found if replayed[one.repeat] == all_of_it]
    if whole:
        summary, _ = replayed_figures(whole, study)
        return summary, _each(found, study, says=summary.says, holds=summary.trend_holds)
    says = "No burst was replayed under all placements."
    return (_each(found, study, says=says, holds=False),) if found else ()


def replayed_figures(found: Sequence[Replayed], study: SparkLatency) -> tuple[Figure, Figure]:
    """Return the summary over repeats, and every replay by itself."""
    methods = [method for method in study.methods if any(one.method == method for one in found)]
    levels = [level for level in study.levels if any(one.level == level for one in found)]
    rows = [
        _summary([one for one in found if one.method == method and one.level == level])
        for level in levels
        for method in methods
    ]
    means = {(row["level"], str(row["method"])): row for row in rows}
    rivals = [method for method in methods if method not in _OURS]
    lowest = {
        column: [
            level
            for level in levels
            if all(
                _mean(means[level, "rod"], column) <= _mean(means[level, rival], column)
                for rival in rivals
            )
        ]
        for column in _COLUMNS
    }
    survives = [
        level
        for level in levels
        if means[level, "rod"]["failed"] == 0
        and all(means[level, rival]["failed"] for rival in rivals)
    ]
    holds = bool(survives) and all(lowest[column] == levels for column in _COLUMNS)
    fails = ", ".join(
        f"at level {level:g} ROD {means[level, 'rod']['failed']}, the rival that failed least "
        f"{min(int(means[level, rival]['failed'] or 0) for rival in rivals)}"
        for level in levels
    )
    bursts = len({one.repeat for one in found})
    says = (
        "The paper: ROD's mean and worst latency are below all others' at every rate, and at the "
        "highest all others fail while it survives; here ROD is lowest in "
        + ", ".join(f"{_said(column)} at {_numbers(lowest[column])}" for column in _COLUMNS)
        + f" of the levels {_numbers(levels)}; of {bursts} bursts, with an executor asked "
        f"for more than it has, failed {fails}: ROD alone survives "
        + (f"at {_numbers(survives)}." if survives else "at no level.")
    )
    curves = Curves("level", ("mean_response_ms",), "method")
    return (
        Figure("003 fig. 18 (on Spark)", _data(found, study), rows, curves, holds, says),
        _each(found, study, says=says, holds=holds),
    )


def _each(found: Sequence[Replayed], study: SparkLatency, *, says: str, holds: bool) -> Figure:
    rows = sorted(found, key=lambda one: (one.level, study.methods.index(one.method), one.repeat))
    return Figure(_EACH, _data(found, study), [one.as_row() for one in rows], None, holds, says)


def _how(study: SparkLatency) -> str:
    """Say what is run, so that replays that were run alike can be distinguished from others."""
    return (
        f"{study.source.data}, each under every placement at levels {_numbers(study.levels)}; "
        f"{SUBSTREAMS} sub-streams, {SUBSTREAMS * len(AGGREGATIONS)} pairs, "
        f"{study.executors} executors; {study.service_us:.0f} us {study.work} for a packet in a "
        f"result; seed {study.seed}"
    )


def _data(found: Sequence[Replayed], study: SparkLatency) -> str:
    data = _how(study)
    if disturbed := sum(one.stolen > MUCH for one in found):
        data += f"; in {disturbed} of {len(found)} replays the host kept more than {MUCH:.0%}"
    return data


def _summary(runs: Sequence[Replayed]) -> dict[str, Value]:
    """Return the means of one method at one level, with the spread of two of them."""

    def over(column: str) -> list[float]:
        return [float(getattr(one, column)) for one in runs]

    used, waited = over("worst_utilisation"), over("mean_response_ms")
    return {
        "level": runs[0].level,
        "method": runs[0].method,
        "worst_utilisation": float(np.mean(used)),
        "used_least": min(used),
        "used_most": max(used),
        "mean_response_ms": float(np.mean(waited)),
        "response_least": min(waited),
        "response_most": max(waited),
        "worst_response_ms": float(np.mean(over("worst_response_ms"))),
        "p99_response_ms": float(np.mean(over("p99_response_ms"))),
        "p99_batch_ms": float(np.mean(over("p99_batch_ms"))),
        "placed_utilisation": float(np.mean(over("placed_utilisation"))),
        "failed": sum(one.failed for one in runs),
    }


def _mean(row: dict[str, Value], column: str) -> float:
    return float(row[column] or 0.0)


def _said(column: str) -> str:
    return column.removesuffix("_ms").replace("_", " ")


def _numbers(levels: Sequence[float]) -> str:
    return ", ".join(f"{level:g}" for level in levels) or "none"
