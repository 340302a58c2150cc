"""What the user asks of the replication loop: bounds, weights, and how gently to move.

Checked when it is made, before anything starts; a wrong field is named in a
:class:`~elastream.model.errors.ProblemError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from elastream.control.policy import PlannerName, Policy
from elastream.model.checks import amount, count, shown
from elastream.model.errors import ProblemError
from elastream.model.replication.problem import Weights

__all__ = ["LatencyModel", "ReplicationPolicy"]

LatencyModel = Literal["fitted", "queue"]
"""``fitted``: a line through what was measured (section 7.3). ``queue``: M/M/1 (section 7.2)."""

_BALANCED: Final = Weights(0.3, 0.3, 0.4)
_NEVER: Final = 10**9
"""Batches of patience: the loop that carries out shall decide on nothing itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPolicy:
    """The goal of the replication loop. Times in seconds are of the stream."""

    response_ms: float
    """Bound on the response time: how long a batch may take from its trigger to its commit. No
    default: it says what the query is for."""
    cost: float | None = None
    """Bound on the replicas of all operators together, each 1 an hour; ``None``: as many as fit."""
    downtime_ms: float = 60_000.0
    """Bound on the downtime of one change."""
    weights: Weights = _BALANCED
    """How much response time, cost and downtime count; the paper's balanced ones."""
    max_replicas: int = 4
    """Never more executors than this for one operator."""
    replicas_an_executor: int | None = None
    """Operators of which an executor may hold a share at once; ``None``: all of them."""
    restricted: bool = False
    """Whether an operator may change by one replica a time only (rEDRP)."""
    downtime: Literal["pause", "restart"] = "pause"
    """What a change stops: what moves (live migration; appendix A.1), or all (A.2)."""
    latency: LatencyModel = "fitted"
    act: bool = False
    """Whether plans are carried out; else they are only logged."""
    first_ignores_downtime: bool = True
    """Whether the first plan may move whatever it likes, as section 6.2 has it."""

    period_s: float = 60.0
    """How often the problem is solved."""
    patience: int = 3
    """How many batches in a row must break the bound before it is solved at once."""
    cooldown_s: float = 15.0
    """How long after a plan, or its end, nothing is solved."""
    smoothing_s: float = 10.0
    """Half-life of an observation."""
    catch_up_s: float = 120.0
    """In how long a backlog should be worked off, where the source can tell it."""
    seconds: float = 10.0
    """How long the solver may look for a proof."""

    sync_ms: float = 500.0
    """What a batch takes longer because something moves in it, whatever its size."""
    load_bytes_per_s: float = 50e6
    """How fast an executor loads state from the checkpoint."""
    cold_ms: float = 5000.0
    """What the first state of an executor costs that has had none."""

    planner: PlannerName = "free-step"
    """How partitions are shared among the replicas of an operator."""
    tau: float = 0.25
    """A replica may hold ``(1 + tau)`` times the mean load of its operator's."""
    moves_per_batch: int | None = 4
    bytes_per_batch: int | None = 64 << 20
    tries: int = 5

    probes: int = 4
    """How many other hosts each host probes; 0 for none, delays then count as 0."""
    probe_every_s: float = 300.0
    seed: int = 0
    """Of the choice of hosts to probe."""

    def __post_init__(self) -> None:
        for name in (
            "response_ms", "downtime_ms", "period_s", "smoothing_s", "catch_up_s", "seconds",
            "load_bytes_per_s", "probe_every_s",
        ):  # fmt: skip
            _positive(name, getattr(self, name))
        if self.cost is not None:
            _positive("cost", self.cost)
        for name in ("cooldown_s", "sync_ms", "cold_ms", "tau"):
            amount(name, getattr(self, name))
        for name in ("max_replicas", "patience", "tries"):
            count(name, getattr(self, name), least=1)
        for name in ("probes", "seed"):
            count(name, getattr(self, name))
        for name in ("replicas_an_executor", "moves_per_batch", "bytes_per_batch"):
            if getattr(self, name) is not None:
                count(name, getattr(self, name), least=1)
        for name in ("response", "cost", "downtime"):
            amount(f"weights.{name}", getattr(self.weights, name))
        if not (self.weights.response or self.weights.cost):
            raise ProblemError("weights", "response and cost are both 0; nothing would be gained")
        for name, known in (
            ("downtime", ("pause", "restart")),
            ("latency", get_args(LatencyModel)),
            ("planner", get_args(PlannerName)),
        ):
            if getattr(self, name) not in known:
                told = shown(getattr(self, name))
                raise ProblemError(name, f"{told} is not one; use {' or '.join(known)}")

    def carrying_out(self) -> Policy:
        """Return the policy of the loop that carries plans out and decides on nothing itself."""
        return Policy(
            max_executors=_NEVER,
            patience=_NEVER,
            smoothing_s=self.smoothing_s,
            tau=self.tau,
            moves_per_batch=self.moves_per_batch,
            bytes_per_batch=self.bytes_per_batch,
            tries=self.tries,
            catch_up_s=self.catch_up_s,
        )


def _positive(field: str, value: float) -> None:
    if amount(field, value) == 0:
        raise ProblemError(field, "0 is not positive")
