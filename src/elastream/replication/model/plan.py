"""What the replication planner answers, and what a deployment is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from elastream.replication.model.problem import Deployment

__all__ = ["Evaluation", "ReplicationPlan"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A deployment's metrics (section 4.2) and what it breaks."""

    objective: float | None
    """Equation 12; None where a replica is saturated."""
    response_ms: float | None
    """Delay along the critical path; None where a replica is saturated."""
    cost: float
    """Money an hour."""
    downtime_ms: float
    """Time that getting there from the current deployment takes."""
    faults: tuple[str, ...]
    """Everything that makes the deployment not allowed; empty where it is."""


@dataclass(frozen=True, slots=True)
class ReplicationPlan:
    """A deployment that is allowed, with its worth and what is proven of it."""

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
        """The share of the objective that might still be saved; 0 where it is optimal."""
        if self.objective <= self.lower_bound:
            return 0.0
        return (self.objective - self.lower_bound) / self.objective
