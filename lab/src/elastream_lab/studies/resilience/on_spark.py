"""Figure 18 of paper 003 on Spark: what the replays come to, and whether the trend holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from elastream_lab.applications.traffic.aggregations import AGGREGATIONS
from elastream_lab.studies.figure import Curves, Figure, Value
from elastream_lab.studies.machine import MUCH
from elastream_lab.studies.resilience.replays import (
    SUBSTREAMS,
    Replayed,
    SparkLatency,
    replays,
)

__all__ = ["latency_on_spark", "replayed_figures", "replayed_so_far"]

_OURS = ("rod", "refined")
_COLUMNS = ("worst_utilisation", "mean_response_ms", "worst_response_ms")
"""In which ROD is to be lowest at every level; the paper's are the last two."""


def latency_on_spark(
    study: SparkLatency, say: Callable[[str], None], found: list[Replayed]
) -> tuple[Figure, ...]:
    """Run the study on an embedded cluster and return its figures; what is found is added."""
    replays(study, say, found)
    return replayed_figures(found, study)


def replayed_so_far(found: Sequence[Replayed], study: SparkLatency) -> tuple[Figure, ...]:
    """Return the figures of the bursts that every placement has had at every level, if any."""
    all_of_it = len(study.methods) * len(study.levels)
    replayed = Counter(one.repeat for one in found)
    whole = [one for one in found if replayed[one.repeat] == all_of_it]
    return replayed_figures(whole, study) if whole else ()


def replayed_figures(found: Sequence[Replayed], study: SparkLatency) -> tuple[Figure, ...]:
    """Return the summary over repeats, and every replay by itself."""
    methods = list(dict.fromkeys(one.method for one in found))
    levels = list(dict.fromkeys(one.level for one in found))
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
    data = (
        f"{study.source.data}, each under every placement at every level; "
        f"{SUBSTREAMS} sub-streams, {SUBSTREAMS * len(AGGREGATIONS)} pairs, "
        f"{study.executors} executors; {study.service_us:.0f} us {study.work} for a packet in a "
        f"result; seed {study.seed}"
    )
    if disturbed := sum(one.stolen > MUCH for one in found):
        data += f"; in {disturbed} of {len(found)} replays the host kept more than {MUCH:.0%}"
    each: list[dict[str, Value]] = [
        {
            "level": one.level,
            "repeat": one.repeat + 1,
            "method": one.method,
            **{column: float(getattr(one, column)) for column in (*_COLUMNS, *_MORE)},
        }
        for one in sorted(found, key=lambda one: (one.level, methods.index(one.method), one.repeat))
    ]
    curves = Curves("level", ("mean_response_ms",), "method")
    return (
        Figure("003 fig. 18 (on Spark)", data, rows, curves, holds, says),
        Figure("003 fig. 18 (on Spark, each replay)", data, each, None, holds, says),
    )


_MORE = ("placed_utilisation", "p99_batch_ms", "p99_response_ms", "stolen")


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
