"""Every planner of a single migration by its name, so that benchmarks and tests run them all."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from elastream.foresight.ssm.single_step import single_step
from elastream.model.plan import StepPlanner
from elastream.placement.free_step.planner import free_step
from elastream_lab.rivals.bounded_hashing import bounded_hashing
from elastream_lab.rivals.consistent_hashing import consistent_hashing
from elastream_lab.rivals.even_split import even_split
from elastream_lab.rivals.redist import redist

STEP_PLANNERS: Mapping[str, StepPlanner] = MappingProxyType(
    {
        "single-step": single_step,
        "free-step": free_step,
        "even-split": even_split,
        "consistent-hashing": consistent_hashing,
        "bounded-hashing": bounded_hashing,
        "redist": redist,
    }
)
"""The planners first, then the baselines, which may exceed the load limit."""
