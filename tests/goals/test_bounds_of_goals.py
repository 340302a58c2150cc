"""Whatever a goal wants, the policy's bounds hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from elastream import Goal, Observed, Policy, Wanted
from elastream.core.goal import Need
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, simulated


@dataclass(frozen=True)
class Greedy(Goal):
    """Wants one thing, whatever it sees."""

    need: Need
    executors: int

    @property
    def name(self) -> str:
        return "greedy"

    def wanted(self, memory: Any, observed: Observed) -> tuple[Any, Wanted, tuple[()]]:
        del observed
        return memory, Wanted(self.need, self.executors, "so it is"), ()


def executors_after(goal: Goal, alive: int) -> tuple[int, list[str], str]:
    cluster = SimulatedCluster(even_workload(12, 1000), ClusterSettings(executors=alive))
    policy = Policy(min_executors=2, max_executors=4, patience=1, cooldown_s=5, goal=goal)
    with simulated(cluster, policy) as loop:
        cluster.advance(60)
    held = loop.of("hold")[-1].reason
    return len(cluster.executors()), [str(kind) for kind in loop.changes], held


@pytest.mark.parametrize(
    ("need", "wanted", "alive", "ends", "changes"),
    [
        ("scale-out", 100, 3, 4, ["scale-out"]),
        ("scale-in", 0, 3, 2, ["scale-in"]),
        ("scale-out", 100, 4, 4, []),
        ("scale-in", 1, 2, 2, []),
    ],
)
def test_a_goal_that_wants_more_than_is_allowed_gets_what_is(
    need: Need, wanted: int, alive: int, ends: int, changes: list[str]
) -> None:
    number, began, held = executors_after(Greedy(need, wanted), alive)
    assert (number, began) == (ends, changes)
    assert held == f"so it is; {wanted} wanted, allowed are 2 to 4"
