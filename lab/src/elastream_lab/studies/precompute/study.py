"""Time to value all partitions on Spark, against partitions and cores, next to a pool of them.

Papers 000 (figure 11) and 001 (figure 14) value every partition that serves a size, in hundreds of
minutes on 64 executors. Here the same is done on as many cores as are asked for, like with like:
all partitions, exact values. Next to it stands what elastream does where they are too many: a pool,
grown in one process; where both are had, how far its values are above the exact ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.growth import GrowthSettings
from elastream.foresight.mtm.partitions import Partitions
from elastream.foresight.mtm.problem import ProjectionProblem
from elastream.foresight.mtm.runner import Runner
from elastream.foresight.mtm.values import PartitionValues, count_all, even_cuts, partition_values
from elastream.model.checks import count, positive
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
from elastream_lab.studies.figure import Curves, Figure, Value, rises

if TYPE_CHECKING:
    from elastream.foresight.ssm.cuts import Cut


_ALL, _POOL = "all", "pool"
_HERE = "one process"
_SAME = 1e-9
"""Values of one process and of Spark differ by less than this share of all state."""

Row = dict[str, Value]


@dataclass(frozen=True, slots=True)
class PrecomputeStudy:
    """Which problems are valued, where, and up to how many partitions."""

    problems: tuple[ProjectionProblem, ...]
    """The same tasks and chain at rising thresholds."""
    data: str
    cores: tuple[int, ...] = (1, 2)
    most: int = 100_000
    """More partitions than these are only counted."""
    pool: int = 2000

    def __post_init__(self) -> None:
        for number in self.cores:
            count("cores", number, least=1, most=1024)
        positive("most", self.most)
        if not self.problems:
            raise ProblemError("taus", "names no threshold")


def precompute_figures(study: PrecomputeStudy, say: Callable[[str], None]) -> tuple[Figure, Figure]:
    """Return the times of all partitions, and those of a pool next to them."""
    counts = [count_all(problem) for problem in study.problems]
    rows = [*_in_place(study, counts, _HERE, 1, None, say)]
    for cores in study.cores:
        with _on_spark(cores) as runner:
            rows += _in_place(study, counts, f"local[{cores}]", cores, runner, say)
    pools = [*_pools(study, counts, rows, say)]
    return _times_figure(study, counts, rows), _pool_figure(study, rows, pools)


def _in_place(
    study: PrecomputeStudy,
    counts: Sequence[int],
    where: str,
    cores: int,
    runner: Runner | None,
    say: Callable[[str], None],
) -> Iterator[Row]:
    """Value all partitions of every problem in one place; a small one goes first, to warm up."""
    fewest = min(range(len(counts)), key=counts.__getitem__)
    if counts[fewest] <= study.most:
        _valued(study.problems[fewest], GrowthSettings(most_listed=study.most), runner)
    for problem, number in zip(study.problems, counts, strict=True):
        row: Row = {"tau": float(problem.tau), "partitions": number, "where": where, "cores": cores}
        if number > study.most:
            yield row | {"seconds": None, "value_percent": None}
            continue
        start = time.perf_counter()
        values = _valued(problem, GrowthSettings(most_listed=study.most), runner)
        seconds = time.perf_counter() - start
        say(f"all {number:,} partitions, {where}: {seconds:.1f} s")
        yield row | {"seconds": seconds, "value_percent": _value_percent(values)}


def _pools(
    study: PrecomputeStudy, counts: Sequence[int], rows: Sequence[Row], say: Callable[[str], None]
) -> Iterator[Row]:
    """Grow a pool for every problem, in one process."""
    exact = {row["tau"]: row["value_percent"] for row in rows if row["where"] == _HERE}
    settings = GrowthSettings(most_listed=0, pool=study.pool)
    for problem, number in zip(study.problems, counts, strict=True):
        start = time.perf_counter()
        values = _valued(problem, settings, None)
        seconds = time.perf_counter() - start
        reached, least = _value_percent(values), exact[float(problem.tau)]
        say(f"a pool of {len(values.members):,} of {number:,}: {seconds:.1f} s")
        yield {
            "tau": float(problem.tau),
            "partitions": number,
            "pool": len(values.members),
            "seconds": seconds,
            "value_percent": reached,
            "exact_percent": least,
            "above_exact_percent": 100 * (reached / float(least) - 1) if least else None,
        }


def _valued(
    problem: ProjectionProblem, settings: GrowthSettings, runner: Runner | None
) -> PartitionValues:
    values = partition_values(problem, settings=settings, runner=runner)
    if isinstance(values, Infeasible):
        raise ProblemError("taus", f"{problem.tau:g}: {values.reason}")
    return values


def _value_percent(values: PartitionValues) -> float:
    """Return the mean value of the most even partitions, one a state, in % of all state."""
    problem = values.problem
    ground = Ground.of(problem.work, problem.state, problem.tau, problem.chain)
    even = even_cuts(problem)
    found = []
    for state, cut in enumerate([] if isinstance(even, Infeasible) else even):
        place = _place(values.members, cut, ground)
        if place >= 0:
            found.append(float(values.values[state, place]))
    return 100 * float(np.mean(found)) / max(float(sum(problem.state)), 1.0)


def _place(members: Partitions, cut: Cut, ground: Ground) -> int:
    return int(members.places(Partitions.of_cuts([cut], ground))[0])


@contextmanager
def _on_spark(cores: int) -> Iterator[Runner]:
    from elastream.foresight.spark_runner import SparkRunner
    from elastream.spark.sessions.batch_session import batch_session

    with batch_session("elastream study", master=f"local[{cores}]") as spark:
        yield SparkRunner(spark.sparkContext)


def _times_figure(study: PrecomputeStudy, counts: Sequence[int], rows: list[Row]) -> Figure:
    by_place = {
        where: [float(row["seconds"]) for row in rows if row["where"] == where and row["seconds"]]
        for where in dict.fromkeys(str(row["where"]) for row in rows)
    }
    measured = [number for number in counts if number <= study.most]
    same = all(
        abs(float(row["value_percent"] or 0) - float(first["value_percent"] or 0)) <= 100 * _SAME
        for row in rows
        for first in rows
        if row["tau"] == first["tau"]
    )
    grows = len(measured) > 1 and all(rises(times) for times in by_place.values())
    largest = ", ".join(
        f"{times[-1]:.0f} s in {where}" for where, times in by_place.items() if times
    )
    spread = [by_place[f"local[{cores}]"][-1] for cores in sorted(study.cores) if measured]
    faster = len(spread) < 2 or spread[-1] < spread[0]
    left = (
        f"{len(counts) - len(measured)} of {len(counts)} thresholds have more than {study.most:,}"
    )
    return Figure(
        "000 fig. 11, 001 fig. 14 (all partitions)",
        study.data,
        rows,
        Curves("partitions", ("seconds",), "where", log=True),
        bool(measured) and same and grows and faster,
        "The papers' time to value all partitions grows with tau, to hundreds of minutes on 64 "
        f"executors; here all {max(measured, default=0):,} take {largest or 'no time: none listed'}"
        f" (values {'equal' if same else 'DIFFER'}, {'less' if faster else 'NOT less'} on more "
        f"cores); {left} and were only counted.",
    )


def _pool_figure(study: PrecomputeStudy, rows: list[Row], pools: list[Row]) -> Figure:
    above = [
        float(row["above_exact_percent"]) for row in pools if row["above_exact_percent"] is not None
    ]
    seconds = [float(row["seconds"] or 0) for row in pools]
    known = [float(row["seconds"] or 0) for row in rows if row["where"] == _HERE and row["seconds"]]
    return Figure(
        "000 fig. 11, 001 fig. 14 (next to a pool)",
        study.data,
        pools,
        Curves("partitions", ("seconds",)),
        bool(above) and max(above) <= 1.0,
        f"Not in the papers: a pool of up to {study.pool:,} takes {min(seconds):.0f} to "
        f"{max(seconds):.0f} s in one process where all partitions take "
        f"{f'up to {max(known):.0f} s' if known else 'longer than was tried'}, and its values are "
        f"{f'at most {max(above):.2f} % above the exact ones' if above else 'not compared'}.",
    )
