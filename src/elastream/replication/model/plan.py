"""Output of the replication planner: a plan, and the evaluation of a deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from elastream.replication.model.problem import Deployment


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics of a deployment (section 4.2) and the rules it breaks."""

    objective: float | None
    """Equation 12; None where a replica is saturated."""
    response_ms: float | None
    """Delay along the critical path; None where a replica is saturated."""
    cost: float
    """Cost per hour."""
    downtime_ms: float
    """Time to get from the current deployment to this one."""
    faults: tuple[str, ...]
    """Every rule that the deployment breaks; empty if it is valid."""


@dataclass(frozen=True, slots=True)
class ReplicationPlan:
    """A valid deployment with its metrics and its proven bound."""

    status: Literal["optimal", "feasible"]
    objective: float
    deployment: Deployment
    response_ms: float
    cost: float
    downtime_ms: float
    lower_bound: float
    """No deployment of the same problem has a smaller objective."""

    @property
    def gap(self) -> float:
        """Share of the objective that might still be saved; 0 if the plan is optimal."""
        if self.objective <= self.lower_bound:
            return 0.0
        return (self.objective - self.lower_bound) / self.objective
