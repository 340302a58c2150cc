"""Figure 18 of paper 003, simulated: latency of a traffic monitor under bursts.

As in section 7.3.5: 16 aggregations over each of ten sub-streams of a packet trace, 160 operators
on five nodes. In place of the trace, an hour of self-similar traffic: the rate of a sub-stream is
a multiplicative cascade (the b-model: an interval's packets are split between its halves as b to
1 - b, the larger part left or right at random), which bursts at every time scale like the paper's
figure 2. Sub-streams have unequal, independent rates.

A node works off what arrives in order of arrival, so with ``q`` the work that waits (in seconds),

    q(t + dt) = max(0, q(t) + load(t) dt - dt),    latency(t) = q(t) + the time of one tuple,

and a tuple's latency is that of the node it goes to. Every tuple passes one operator, so that is
end to end. Means are over tuples, each tuple of a sub-stream counted at all its operators. A node
whose queue passes a minute has failed, as the paper's machines did when their memory ran out.

Rivals balance the rates of the first tenth of the hour, as observed; ROD and refined see none.

A log of somebody's own takes the place of the made hour: its packets are split by their sources, as
the monitor on Spark does, and the rate of a step is what falls into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
from elastream.resilience.model.problem import ResilientProblem
from elastream.resilience.planner.normalised import Floats, Ints, Space, normalise
from elastream_lab.applications.traffic.bursts import bursty_rates
from elastream_lab.applications.traffic.packets import Packets
from elastream_lab.rivals import placements as rivals
from elastream_lab.rivals.methods import METHODS
from elastream_lab.studies.figure import Curves, Figure, Value

_NODES, _SUBSTREAMS, _AGGREGATIONS = 5, 10, 16
_MULTIPLIERS = (1.0, 2.0, 3.0, 3.5, 4.0)
_UTILISATION = (0.26, 0.48, 0.69, 0.79, 0.91)
"""Mean CPU utilisation the paper shows for ROD at the multipliers."""
_SECONDS = 3600.0
_LOG2_STEPS = 14
_LEAST_STEPS, _PACKETS_A_STEP = 64, 8
"""A log is cut into this many steps that each has some packets."""
_OPERATORS = _SUBSTREAMS * _AGGREGATIONS
_BIAS = 0.61
"""b of the cascade: a sub-stream deviates by about its mean, their sum by about a third of it."""
_FAILED_S = 60.0
_SERVICE_S = 0.001
"""The time of one tuple."""
_LATENCIES = ("mean_ms", "worst_ms")
_SAME = 1.001
"""Latencies closer than this factor are the same."""


@dataclass(frozen=True, slots=True, eq=False)
class _Traffic:
    """The application: operators, their loads, and an hour of rates."""

    space: Space
    rates: Floats
    """A row for each step: ``x_k`` of the normalised space, at a mean utilisation of 1."""
    seconds: float = _SECONDS
    """How long all steps are."""


def latency(seed: int, graphs: int) -> Figure:
    """Return mean and worst latency by input rate, over ``graphs`` seeded hours of traffic."""
    traffics = [_traffic(seed + number) for number in range(graphs)]
    return _figure(traffics, f"{graphs} simulated hours of self-similar traffic", seed)


def latency_of_packets(packets: Packets, name: str, seed: int) -> Figure:
    """Return the same under the packets of a log, split by their sources; ``seed``: the costs."""
    span_s = float(packets.time_us[-1] - packets.time_us[0]) / 1e6 if len(packets) else 0.0
    if span_s <= 0:
        raise ProblemError("input", f"{name} has no two packets at different times")
    steps = min(1 << _LOG2_STEPS, max(_LEAST_STEPS, len(packets) // _PACKETS_A_STEP))
    edges = np.linspace(packets.time_us[0], packets.time_us[-1] + 1, steps + 1)
    counts = []
    for number, rows in enumerate(packets.split(_SUBSTREAMS)):
        if not len(rows):
            why = f"{name} has too few sources: none falls into sub-stream {number}"
            raise ProblemError("input", why)
        counts.append(np.histogram(packets.time_us[rows], edges)[0].astype(np.float64))
    rates = np.stack(counts, axis=1) * steps / len(packets)
    traffic = _Traffic(_monitor(np.random.default_rng(seed)), rates, span_s)
    report = f"{len(packets):,} packets of {name}, {span_s:,.0f} s in {steps:,} steps"
    return _figure([traffic], report, seed)


def _figure(traffics: Sequence[_Traffic], text: str, seed: int) -> Figure:
    rows: list[dict[str, Value]] = []
    names = tuple(_placements(traffics[0]))
    found: dict[tuple[str, float], list[tuple[float, float, bool]]] = {}
    for traffic in traffics:
        for method, place in _placements(traffic).items():
            for multiplier, used in zip(_MULTIPLIERS, _UTILISATION, strict=True):
                measured = _latencies(traffic, place, used)
                found.setdefault((method, multiplier), []).append(measured)
    for (method, multiplier), runs in found.items():
        means, worsts, failed = zip(*runs, strict=True)
        rows.append(
            {
                "multiplier": multiplier,
                "method": method,
                "mean_ms": 1000 * float(np.mean(means)),
                "worst_ms": 1000 * float(np.mean(worsts)),
                "failed_runs": sum(failed),
            }
        )
    return _judged(
        rows,
        names,
        len(traffics),
        f"{text}, {_NODES} nodes, {_OPERATORS} operators; "
        f"a queue of {_FAILED_S:g} s is a failure; seed {seed}",
    )


def _judged(rows: list[dict[str, Value]], names: tuple[str, ...], graphs: int, data: str) -> Figure:
    def of(method: str, column: str) -> list[float]:
        return [float(r[column] or 0.0) for r in rows if r["method"] == method]

    others = [name for name in names if name not in ("rod", "refined")]

    def is_lowest(method: str, column: str) -> bool:
        best = [min(of(name, column)[i] for name in others) for i in range(len(_MULTIPLIERS))]
        return all(own <= b * _SAME for own, b in zip(of(method, column), best, strict=True))

    lowest = {column: is_lowest("rod", column) for column in _LATENCIES}
    ours = all(is_lowest("refined", column) for column in _LATENCIES)
    failed = int(of("rod", "failed_runs")[-1])
    others_failed = int(min(of(name, "failed_runs")[-1] for name in others))
    survives = failed == 0 and others_failed == graphs
    said = [f"lowest {c.split('_')[0]}: {'yes' if ok else 'no'}" for c, ok in lowest.items()]
    return Figure(
        "003 fig. 18 (simulated)",
        data,
        rows,
        Curves("multiplier", ("mean_ms",), "method"),
        all(lowest.values()) and survives,
        "The paper: ROD's mean and maximum latency are below all others' at every rate, and at "
        f"the highest only ROD survives; here, of ROD: {', '.join(said)}; at the highest rate ROD "
        f"fails in {failed} of {graphs} runs, the rival that fails least in {others_failed}; "
        "refined is "
        f"{'below all rivals in both' if ours else 'not below all rivals in both'}.",
    )


def queues_s(load: Floats, step_s: float) -> Floats:
    """Return the work that waits after each step, in seconds, of a node with this load."""
    net = np.cumsum((load - 1.0) * step_s)
    waiting: Floats = net - np.minimum(np.minimum.accumulate(net), 0.0)
    return waiting


def _traffic(seed: int) -> _Traffic:
    rng = np.random.default_rng(seed)
    space = _monitor(rng)
    sizes = rng.dirichlet(np.full(_SUBSTREAMS, 8.0))
    series = [size * bursty_rates(rng, _LOG2_STEPS, _BIAS) for size in sizes]
    return _Traffic(space, np.stack(series, axis=1))


def _monitor(rng: np.random.Generator) -> Space:
    """Return the aggregations over the sub-streams, with drawn costs."""
    costs = rng.uniform(0.1, 1.0, size=_AGGREGATIONS)
    load = np.kron(np.eye(_SUBSTREAMS), costs[:, None])
    space = normalise(ResilientProblem.of(load.tolist(), [1.0] * _NODES))
    if isinstance(space, Infeasible):  # nodes with capacity, no lower bound
        raise AssertionError(space.reason)
    return space


def _placements(traffic: _Traffic) -> Mapping[str, Ints]:
    """Return the placement of each method; rivals know the first tenth of the hour."""
    space, seen = traffic.space, traffic.rates[: len(traffic.rates) // 10]
    known: Mapping[str, Callable[[], Ints]] = {
        "refined": lambda: METHODS["refined"](space, 0),
        "rod": lambda: METHODS["rod"](space, 0),
        "correlation": lambda: rivals.correlation(space, seen),
        "llf": lambda: rivals.largest_load_first(space, seen.mean(axis=0)),
        "max-rate": lambda: rivals.max_rate(space, seen),
        "random": lambda: rivals.random_even(space, 0),
        "connected": lambda: rivals.connected(_by_substream(space), seen.mean(axis=0)),
    }
    return {method: place() for method, place in known.items()}


def _by_substream(space: Space) -> Space:
    """Return the space with the operators of a sub-stream connected: they read the same one."""
    numbers = np.arange(_SUBSTREAMS * _AGGREGATIONS).reshape(_SUBSTREAMS, _AGGREGATIONS)
    ends = np.stack([numbers[:, :-1].ravel(), numbers[:, 1:].ravel()], axis=1)
    return replace(space, ends=ends, transfers=np.zeros((len(ends), _SUBSTREAMS)))


def _latencies(traffic: _Traffic, place: Ints, utilisation: float) -> tuple[float, float, bool]:
    """Return the mean and the worst latency of a tuple in seconds, and whether a node failed."""
    rates = utilisation * traffic.rates
    loads = rates @ traffic.space.weights(place).T
    step_s = traffic.seconds / len(rates)
    waits = np.stack([queues_s(load, step_s) for load in loads.T], axis=1)
    operators = np.zeros((len(traffic.space.capacity), _SUBSTREAMS))
    np.add.at(operators, place, (traffic.space.shares > 0).astype(float))
    tuples = rates @ operators.T
    mean = float((waits * tuples).sum() / tuples.sum()) + _SERVICE_S
    worst = float(waits.max()) + _SERVICE_S
    return mean, worst, bool(worst > _FAILED_S)
