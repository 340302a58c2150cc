"""Settings of the replication goal: bounds, weights, prices, pins; validated when created."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from elastream.core.application import GoalBounds
from elastream.core.goal import Goal
from elastream.model.checks import abbreviate, count, non_negative, positive
from elastream.model.errors import ProblemError
from elastream.model.observation import Executor
from elastream.model.words import join_names
from elastream.replication.goal.response import LatencyModel
from elastream.replication.model.problem import Weights

_BALANCED: Final = Weights(0.3, 0.3, 0.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings(Goal):
    """A bound on the response time, prices, and limits on moves."""

    response_ms: float
    """Bound on the average response time of a row: from its arrival until its batch has committed,
    including the wait for the batch and for the backlog. No default: it depends on what the queries
    are for."""
    cost: float | None = None
    """Bound on the total cost of all executors and replicas; ``None``: no bound."""
    downtime_ms: float = 60_000.0
    """Bound on the downtime of one change."""
    weights: Weights = _BALANCED
    """Weights of response time, cost and downtime; by default the paper's balanced ones."""
    max_replicas: int | Mapping[str, int] = 4
    """Maximum number of executors per operator; by query, or by ``query/operator``."""
    pins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The hosts that operators must stay on, by query, or by ``query/operator``."""
    executor_price: float | Mapping[str, float] = 1.0
    """Price of an executor while it holds any state; by host if hosts differ."""
    replica_price: float = 0.0
    """Additional price of each replica of an operator, wherever it is."""
    link_price: float = 0.0
    """Price of one row per second sent to another host."""
    replicas_an_executor: int | None = None
    """Maximum number of operators with a replica on one executor; ``None``: no limit."""
    restricted: bool = False
    """Whether an operator may change by only one replica at a time (rEDRP)."""
    downtime: Literal["pause", "restart"] = "pause"
    """What a change stops: only what moves (live migration; appendix A.1), or everything (A.2)."""
    latency: LatencyModel = "fitted"
    first_ignores_downtime: bool = True
    """Whether the first plan may ignore the downtime of moves, as in section 6.2."""
    busiest: float = 0.9
    """Share of their time for which the slots of an executor, or the stages of a query, may work.
    The goal changes to what stays a tenth below this, so that noise alone brings nothing back."""
    tau: float = 0.25
    """A replica may hold ``(1 + tau)`` times the mean load of the operator's replicas."""

    period_s: float = 60.0
    """How often the problem is solved."""
    patience: int = 3
    """Number of consecutive batches of a query that must break the bound before it is solved at
    once."""
    cooldown_s: float = 15.0
    """How long after a plan, or the end of its change, nothing is solved."""
    catch_up_s: float = 120.0
    """Time in which a backlog should be processed, if the source reports one."""
    effort: float = 1.5e9
    """Number of values that the solver may compute for a proof: about ten seconds on an ordinary
    core."""

    sync_ms: float = 500.0
    """Extra time of a batch in which anything moves, until moves have been measured."""
    load_bytes_per_s: float = 50e6
    """Speed at which an executor loads state, until moves have been measured."""
    cold_ms: float = 5000.0
    """Cost of the first state on an executor, until one has been measured."""

    probes: int = 4
    """Number of other hosts that each host probes; 0 for none, delays then count as 0."""
    probe_every_s: float = 300.0
    seed: int = 0
    """Seed for the choice of hosts to probe."""

    def __post_init__(self) -> None:
        for name in (
            "response_ms", "downtime_ms", "period_s", "catch_up_s", "effort", "load_bytes_per_s",
            "probe_every_s",
        ):  # fmt: skip
            positive(f"goal.{name}", getattr(self, name))
        if self.cost is not None:
            positive("goal.cost", self.cost)
        for name in ("cooldown_s", "sync_ms", "cold_ms", "tau", "replica_price", "link_price"):
            non_negative(f"goal.{name}", getattr(self, name))
        count("goal.patience", self.patience, least=1)
        for name in ("probes", "seed"):
            count(f"goal.{name}", getattr(self, name))
        if self.replicas_an_executor is not None:
            count("goal.replicas_an_executor", self.replicas_an_executor, least=1)
        if positive("goal.busiest", self.busiest) > 1:
            raise ProblemError("goal.busiest", f"{self.busiest:g} is above 1")
        self._check_weights()
        self._check_mappings()
        known_values = {"downtime": ("pause", "restart"), "latency": get_args(LatencyModel)}
        for name, known in known_values.items():
            if getattr(self, name) not in known:
                value = abbreviate(getattr(self, name))
                raise ProblemError(f"goal.{name}", f"{value} is not one; use {' or '.join(known)}")

    def _check_weights(self) -> None:
        for name in ("response", "cost", "downtime"):
            non_negative(f"goal.weights.{name}", getattr(self.weights, name))
        if not (self.weights.response or self.weights.cost):
            nothing = "response and cost are both 0; nothing would be gained"
            raise ProblemError("goal.weights", nothing)

    def _check_mappings(self) -> None:
        most = self.max_replicas
        for name, number in most.items() if isinstance(most, Mapping) else (("", most),):
            count(f"goal.max_replicas{_key(name)}", number, least=1)
        price = self.executor_price
        for name, money in price.items() if isinstance(price, Mapping) else (("", price),):
            non_negative(f"goal.executor_price{_key(name)}", money)
        for name, hosts in self.pins.items():
            if isinstance(hosts, str) or not hosts:
                wrong = f"{abbreviate(hosts)} is not a list of hosts"
                raise ProblemError(f"goal.pins{_key(name)}", wrong)

    @property
    def name(self) -> str:
        """Name in the log."""
        weights = self.weights
        share = f"{weights.response:g}/{weights.cost:g}/{weights.downtime:g}"
        return f"replication within {self.response_ms:g} ms a row, weights {share}"

    @property
    def most_of_all(self) -> int:
        """The largest number of replicas that any operator may have."""
        most = self.max_replicas
        return max(most.values(), default=1) if isinstance(most, Mapping) else most

    def most_replicas(self, query: str, operator: int) -> int:
        """Return the maximum number of replicas of an operator."""
        most = self.max_replicas
        if not isinstance(most, Mapping):
            return most
        return most.get(f"{query}/{operator}", most.get(query, self.most_of_all))

    def hosts_of(self, query: str, operator: int) -> frozenset[str] | None:
        """Return the hosts that an operator must stay on; ``None``: any."""
        hosts = self.pins.get(f"{query}/{operator}", self.pins.get(query))
        return None if hosts is None else frozenset(hosts)

    def price_of(self, host: str | None) -> float:
        """Return the price of an executor on a host; ``None``: on a host not known yet."""
        price = self.executor_price
        if not isinstance(price, Mapping):
            return price
        dearest = max(price.values(), default=1.0)
        return dearest if host is None else price.get(host, dearest)

    def check(self, bounds: GoalBounds) -> None:
        """Reject a maximum number of replicas above the maximum number of executors."""
        if self.most_of_all > bounds.most and isinstance(self.max_replicas, Mapping):
            most = max(self.max_replicas, key=lambda name: self.max_replicas[name])  # type: ignore[index]
            above = f"{self.max_replicas[most]} is above max_executors {bounds.most}"
            raise ProblemError(f"goal.max_replicas{_key(most)}", above)

    def check_start(self, now_ms: int, executors: tuple[Executor, ...]) -> None:  # noqa: ARG002
        """Reject hosts that have no executor."""
        known = {executor.host for executor in executors}
        named = [(f"goal.pins{_key(name)}", host) for name, on in self.pins.items() for host in on]
        if isinstance(self.executor_price, Mapping):
            named += [("goal.executor_price", host) for host in self.executor_price]
        for place, host in named:
            if host not in known:
                hosts = join_names(sorted(known))
                raise ProblemError(place, f"host {host!r} has no executor; hosts are {hosts}")


def _key(name: str) -> str:
    return f"[{name!r}]" if name else ""
