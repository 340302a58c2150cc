from __future__ import annotations

from dataclasses import replace

import pytest

from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem
from elastream.foresight.mtm.values import count_all
from elastream.model.errors import ProblemError
from elastream_lab.studies.precompute.study import PrecomputeStudy, precompute_figures

CHAIN = MigrationChain.of([3, 4, 5], [[0, 0.6, 0.4], [0.5, 0, 0.5], [0.3, 0.7, 0]], 0.8)
PROBLEM = ProjectionProblem.of(
    [3, 5, 2, 4, 6, 3, 5, 4, 2, 6, 3, 4], [7, 9, 4, 8, 6, 9, 3, 5, 8, 7, 6, 4], 0.5, CHAIN
)


def test_all_partitions_are_timed_next_to_a_pool_and_too_many_are_only_counted() -> None:
    problems = tuple(replace(PROBLEM, tau=tau) for tau in (0.5, 0.7, 1.5))
    counts = [count_all(problem) for problem in problems]
    lines: list[str] = []
    study = PrecomputeStudy(problems, "mine", cores=(), most=counts[1], pool=60)
    times, pools = precompute_figures(study, lines.append)
    assert [(row["partitions"], row["seconds"] is None) for row in times.rows] == [
        (counts[0], False),
        (counts[1], False),
        (counts[2], True),
    ]
    assert "1 of 3 thresholds" in times.says
    assert len(lines) == 5
    exact = [row["exact_percent"] for row in pools.rows]
    assert exact[:2] == [row["value_percent"] for row in times.rows[:2]]
    assert exact[2] is None
    assert all(row["value_percent"] >= (row["exact_percent"] or 0) - 1e-9 for row in pools.rows)
    assert all(row["pool"] <= 60 for row in pools.rows)


def test_what_cannot_be_served_is_reported() -> None:
    study = PrecomputeStudy((replace(PROBLEM, tau=0.0),), "mine", cores=())
    with pytest.raises(ProblemError, match=r"taus: 0: a migration to \d nodes may follow"):
        precompute_figures(study, lambda _: None)
    with pytest.raises(ProblemError, match="taus: names no threshold"):
        PrecomputeStudy((), "mine")
