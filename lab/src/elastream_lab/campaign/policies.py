"""The policy that a scenario has drawn, as elastream takes it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from elastream import ByHand, Combined, Goal, Movement, Policy, Schedule, Timeouts, Utilisation
from elastream.replication import Replication
from elastream.resilience import Resilient
from elastream_lab.campaign.scenario import Scenario

_PATIENCE_S: Final = 300.0
_GOALS: Final[dict[str, Goal]] = {
    "by hand": ByHand(),
    "utilisation": Utilisation(target=0.5, catch_up_s=20.0),
    "resilient": Resilient(batches=2),
    "replication": Replication(response_ms=4000, max_replicas=2, period_s=15.0, cooldown_s=5.0),
    "schedule": Schedule([(0, 1), (45, 2)], every=timedelta(seconds=90), lead_s=5.0),
    "utilisation, placed resilient": Combined(
        how_many=Utilisation(target=0.5, catch_up_s=20.0), where=Resilient(batches=2)
    ),
}
"""By name. The schedule turns all the time, whenever a run begins."""
GOALS: Final = tuple(_GOALS)


def policy_of(scenario: Scenario) -> Policy:
    """Return the policy; it waits long, for runs share the machine."""
    drawn = scenario.policy
    return Policy(
        max_executors=scenario.max_executors,
        goal=_GOALS[drawn.goal],
        planner=drawn.planner,
        spares=drawn.spares,
        standbys=drawn.standbys,
        movement=Movement(
            copy_least_bytes=drawn.copy_least_bytes,
            moves_per_batch=drawn.moves_per_batch,
            warm_up=drawn.warm_up,
            settle_batches=1,
            tries=8,
        ),
        tau=drawn.tau,
        patience=1,
        cooldown_s=2.0,
        timeouts=Timeouts(grow_s=_PATIENCE_S, action_s=_PATIENCE_S, call_s=60.0),
    )
