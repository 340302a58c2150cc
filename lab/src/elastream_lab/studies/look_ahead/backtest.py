"""The same days under three loops on a simulated cluster: reactive, ahead, and an oracle.

All three are the real loop with the goal ``Utilisation`` and the same bounds. *Reactive* scales for
the load of now. *Ahead* scales for the load it expects; it has learnt from the weeks before, as an
attachment does from its trace. The *oracle* follows the rules of *ahead* with the load to come in
the place of the forecast. Executors take a while to come and to be warmed, so whoever asks for them
when they are needed is late.

A batch that takes longer than its trigger is an overload: rows come in faster than they are worked
off. Executors cost from when they register to when they are given back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from elastream.core.application import Observed
from elastream.core.policy import Movement, Policy, Timeouts
from elastream.goals.forecast import Expected, Forecaster
from elastream.goals.utilisation import FURTHEST_S, Utilisation
from elastream.model.checks import count, non_negative, positive
from elastream.model.errors import ProblemError
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, simulated
from elastream_lab.studies.look_ahead.series import DAY_S, HeldOut

LOOPS: Final = ("reactive", "ahead", "oracle")
_TASKS: Final = 24
_LEAST_EXECUTORS: Final = 2
_MOST_EXECUTORS: Final = 12
_HIGH_EXECUTORS: Final = 6
"""A high load of the weeks before keeps this many executors as busy as they should be."""
_ROW_S: Final = 0.001
_TRIGGER_S: Final = 30.0
_STATUS_S: Final = 120.0
_STATE_BYTES: Final = 32 << 20
_PATIENCE: Final = 2
_TARGET: Final = 0.7
HIGH_ROWS_PER_S: Final = _HIGH_EXECUTORS * _TARGET / _ROW_S
_ORACLE_LOOKS: Final = 10


@dataclass(frozen=True, slots=True)
class LookAheadStudy:
    """What to run; checked when made."""

    look_ahead_s: float = 300.0
    """How far the loop looks ahead."""
    pool_s: float = 60.0
    """How long executors take to come, and as long to be warmed or taken away."""
    days: int = 7
    """The last days of each load are held out; all before them is learnt from."""

    def __post_init__(self) -> None:
        if positive("look_ahead_s", self.look_ahead_s) > FURTHEST_S:
            wrong = f"{self.look_ahead_s:g} is above {FURTHEST_S:g}"
            raise ProblemError("look_ahead_s", wrong)
        non_negative("pool_s", self.pool_s)
        count("days", self.days, least=1, most=366)


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle(Utilisation):
    """Knows the load to come."""

    cores: Callable[[float], float]
    """What stateful tasks need, by the second."""

    def memory(self) -> None:
        """Remember nothing."""

    def expected(self, memory: Forecaster | None, observed: Observed) -> Expected | None:  # noqa: ARG002
        """Return the most that there will be within the look-ahead."""
        now_s = (observed.now_ms or 0) / 1000
        step_s = self.look_ahead_s / _ORACLE_LOOKS
        most = max(self.cores(now_s + i * step_s) for i in range(_ORACLE_LOOKS + 1))
        return Expected(most, 0.0, "oracle")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a loop made of the days."""

    loop: str
    overload_s: float
    """Time in batches that took longer than their trigger."""
    executor_s: float
    changes: int
    worst_batch_s: float
    expected_error_percent: float | None
    """Mean error of what was expected, of the mean load."""

    def as_row(self) -> dict[str, Any]:
        """Return it as a row of a figure."""
        return {
            "loop": self.loop,
            "overload_s": round(self.overload_s),
            "executor_s": round(self.executor_s),
            "changes": self.changes,
            "worst_batch_s": round(self.worst_batch_s, 1),
            "expected_error_percent": self.expected_error_percent,
        }


def outcome(study: LookAheadStudy, load: HeldOut, loop: str) -> Outcome:
    """Return what one of the loops makes of the days that were held out."""
    rate = load.rows_per_s()
    goal, past = _goal(study, load, loop, rate)
    settings = ClusterSettings(
        executors=_HIGH_EXECUTORS, pool_s=study.pool_s, status_s=_STATUS_S, slots=_MOST_EXECUTORS
    )
    workload = even_workload(
        _TASKS,
        rate,
        row_ms=1000 * _ROW_S,
        trigger_ms=1000 * _TRIGGER_S,
        state_bytes=_STATE_BYTES,
        most_rows=round(_MOST_EXECUTORS * _TRIGGER_S / _ROW_S),
    )
    cluster = SimulatedCluster(workload, settings)
    policy = Policy(
        min_executors=_LEAST_EXECUTORS,
        max_executors=_MOST_EXECUTORS,
        goal=goal,
        patience=_PATIENCE,
        timeouts=Timeouts(smoothing_s=_TRIGGER_S, action_s=max(300.0, 2 * study.pool_s)),
        movement=Movement(moves_per_batch=None, bytes_per_batch=None),
    )
    overload_s = executor_s = worst_s = last_s = 0.0
    with simulated(cluster, policy, past=past) as running:
        while last_s < load.days * DAY_S:
            alive = len(cluster.executors())
            batches = cluster.advance(_TRIGGER_S)
            executor_s += alive * (cluster.now_ms / 1000 - last_s)
            last_s = cluster.now_ms / 1000
            for batch in batches:
                worst_s = max(worst_s, batch.duration_ms / 1000)
                if batch.duration_ms > 1000 * _TRIGGER_S:
                    overload_s += batch.duration_ms / 1000
        memory = running.state.memory
    error = None
    if isinstance(memory, Forecaster) and memory.load > 0:
        error = round(100 * memory.off / memory.load, 2)
    return Outcome(loop, overload_s, executor_s, len(running.changes), worst_s, error)


def _goal(
    study: LookAheadStudy, load: HeldOut, loop: str, rate: Callable[[float], float]
) -> tuple[Utilisation, Iterable[tuple[int, float]]]:
    if loop == "reactive":
        return Utilisation(target=_TARGET), ()
    if loop == "ahead":
        goal = Utilisation(target=_TARGET, look_ahead_s=study.look_ahead_s, zone="UTC")
        return goal, load.past(_ROW_S)
    return Oracle(
        target=_TARGET,
        look_ahead_s=study.look_ahead_s,
        cores=lambda second: rate(second) * _ROW_S,
    ), ()
