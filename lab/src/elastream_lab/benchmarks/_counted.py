"""A replication problem solved, with the values and the seconds that it took."""

from __future__ import annotations

import time
from dataclasses import dataclass
from unittest.mock import patch

from elastream.replication.model.plan import ReplicationPlan
from elastream.replication.model.problem import ReplicationProblem
from elastream.replication.planner import exact
from elastream.replication.planner.elimination import Effort


@dataclass(frozen=True, slots=True)
class Counted:
    """What was found and what it took."""

    plan: ReplicationPlan
    values: float
    seconds: float
    """Of one core."""

    @property
    def proven(self) -> bool:
        """Whether there is no better one."""
        return self.plan.status == "optimal"


def counted(problem: ReplicationProblem, effort: float) -> Counted:
    """Return the plan and what it took."""
    efforts: list[Effort] = []

    def begun(values: float) -> Effort:
        efforts.append(Effort(values))
        return efforts[-1]

    began = time.process_time()
    with patch.object(exact, "Effort", begun):
        plan = exact.replication(problem, effort=effort)
    took = time.process_time() - began
    assert isinstance(plan, ReplicationPlan)
    return Counted(plan, effort - efforts[0].left, took)
