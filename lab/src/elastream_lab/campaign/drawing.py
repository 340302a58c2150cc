"""Drawing scenarios: the same seed and number give the same one, on every machine."""

from __future__ import annotations

import random
from typing import Final

from elastream_lab.campaign.policies import GOALS
from elastream_lab.campaign.scenario import (
    FAULTS,
    Fault,
    PolicyDrawn,
    Query,
    Request,
    Round,
    Scenario,
)
from elastream_lab.campaign.shapes import SHAPES

_ROUNDS: Final = (3, 5)
_FILES: Final = (3, 7)
_MAX_EXECUTORS: Final = 3
_FAULT_SHARE: Final = 0.8
_JUMPS_S: Final = (-3600.0, -30.0, 30.0, 3600.0)


def draw(seed: int, number: int) -> Scenario:
    """Return the scenario of this number."""
    dice = random.Random(f"{seed}/{number}")  # noqa: S311 - no secret
    store = dice.choice(("rocksdb", "rocksdb changelog", "hdfs"))
    policy = _policy(dice)
    most = _MAX_EXECUTORS - policy.spares
    executors = dice.randint(1, most)
    return Scenario(
        seed=seed,
        number=number,
        queries=_queries(dice, store),
        rounds=_rounds(dice, executors, most, _usual_phases(policy, store)),
        policy=policy,
        executors=executors,
        max_executors=_MAX_EXECUTORS,
        partitions=dice.choice((2, 3, 4)),
        store=store,  # type: ignore[arg-type] # one of the three above
        maintenance_s=dice.choice((1, 5, 60)),
        files_per_batch=dice.choice((1, 2, 3)),
        attach_to=dice.choice(("session", "queries")),
        closes=dice.random() < 0.5,
    )


def _queries(dice: random.Random, store: str) -> tuple[Query, ...]:
    known = [name for name, shape in SHAPES.items() if store != "hdfs" or not shape.needs_rocksdb]
    chosen = dice.sample(known, dice.choice((1, 1, 2, 3)))
    return tuple(Query(f"q{number}", shape) for number, shape in enumerate(chosen))


def _policy(dice: random.Random) -> PolicyDrawn:
    return PolicyDrawn(
        goal=dice.choice(("by hand", *GOALS)),
        planner=dice.choice(("free-step", "single-step", "transition", "free-ahead")),
        spares=dice.choice((0, 0, 1)),
        standbys=dice.choice((0, 1)),
        copy_least_bytes=dice.choice((0, 64 << 20)),
        moves_per_batch=dice.choice((None, 1, 2)),
        warm_up=dice.random() < 0.7,
        tau=dice.choice((0.2, 0.5)),
    )


def _usual_phases(policy: PolicyDrawn, store: str) -> tuple[str, ...]:
    """Return the phases that a change of this application may have, whatever it is."""
    copies = policy.copy_least_bytes == 0 and store != "hdfs"
    return ("planning", "copying", "moving", "moving") if copies else ("planning", "moving")


def _rounds(
    dice: random.Random, executors: int, most: int, usual: tuple[str, ...]
) -> tuple[Round, ...]:
    rounds = []
    for number in range(dice.randint(*_ROUNDS)):
        request, phases = _request(dice, executors, most), usual
        if request is None:
            phases = ("steady",)
        elif request.executors is None:  # nothing is planned where places are asked for
            phases = tuple(phase for phase in usual if phase != "planning")
        else:
            more = request.executors > executors
            phases = (*usual, "growing", "warming") if more else (*usual, "releasing", "releasing")
            executors = request.executors
        fault = _fault(dice, phases) if dice.random() < _FAULT_SHARE else None
        late = dice.choice((0, 0, 3)) if number else 0
        rounds.append(Round(dice.randint(*_FILES), late, request, fault))
    return tuple(rounds)


def _request(dice: random.Random, executors: int, most: int) -> Request | None:
    kind = dice.choice(("none", "move", "scale", "scale", "scale"))
    others = [size for size in range(1, most + 1) if size != executors]
    if kind == "none" or (kind == "scale" and not others):
        return None
    return Request(None if kind == "move" else dice.choice(others))


def _fault(dice: random.Random, phases: tuple[str, ...]) -> Fault:
    kind, phase = dice.choice(FAULTS), dice.choice(phases)
    lasts_s = dice.choice(_JUMPS_S) if kind == "clock jump" else round(dice.uniform(1.0, 6.0), 1)
    return Fault(kind, phase, lasts_s)
