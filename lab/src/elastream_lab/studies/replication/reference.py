"""The reference application of paper 004 (sections 7.1 and 7.2, table II, figure 4).

DEBS 2015, query 1: the top ten taxi routes of the last half hour. Rates, sizes, speeds and bounds
are the paper's. It does not print how many tuples an operator passes on, nor where the two pinned
operators are; those readings are ours and stand here, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from elastream.replication.model.latency import Queue
from elastream.replication.model.problem import (
    Bounds,
    Datastore,
    Deployment,
    Node,
    Operator,
    ReplicationProblem,
    Stream,
    Weights,
)
from elastream_lab.studies.replication.network import Network, network_of, topology_named

_SERVICE_RATE_AND_STATE = {
    "dataSource": (284, 82),
    "parser": (233, 0),
    "filterByCoordinates": (253, 0),
    "computeRouteID": (253, 0),
    "metronome": (300, 328),
    "countByWindow": (335, 1376),
    "partialRank": (2371, 1536),
    "globalRank": (3000, 480),
}
"""Table II: tuples a second, bytes."""
_ALONE = ("dataSource", "metronome", "globalRank")
"""Operators that are never replicated."""
_PASSED_ON = {"countByWindow": 21.2, "partialRank": 0.1}
"""Our reading: tuples out for each tuple in; all others pass on what they get.

The paper scales partialRank out at 105 tuples a second, where that pays only if about 2,220 reach
it, and two of its replicas bear the peak of 220, so at most 2 x 2371 do then: between 21.1 and 21.5
for each. It scales parser, filter and route out at once: they get about the same.
"""
_PULSES_A_SECOND = 1.0
"""Our reading: what the metronome sends."""
_MEAN_DELAY_MS = 32.0
_CODE_BYTES = 300_000
_LINK_COST = 0.02 / 1000
"""Our reading: 0.02 $/h for a thousand tuples a second.

Table II says 0.02 for one. Then any stream of 145 tuples a second between nodes would cost 2.9 an
hour; with eight operators on nodes for two, three streams at least pass between nodes, and the mean
costs of table III, 9.2 to 10.3 with 8 or more replicas of 1 each, could not be.
"""
_DATASTORE_DELAY_MS = 5
_BYTES_PER_S = 12_500_000

BASELINE = Weights(0.5, 0.5, 0)
"""Downtime does not count."""
BALANCED = Weights(0.3, 0.3, 0.4)


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the application runs and how far it may be replicated."""

    network: Network
    source: str
    """Node of the data source."""
    sink: str
    """Node of the global rank."""
    max_replicas: int = 2


def ans_network() -> Setting:
    """Return 15 places of the ANS backbone; taxis drive in New York, results go to the west."""
    network = network_of(topology_named("topozoo/Ans"), places=15)
    return Setting(network.with_mean_delay_ms(_MEAN_DELAY_MS), "New York", "San Francisco")


def made_network(places: int, max_replicas: int, *, seed: int = 0) -> Setting:
    """Return places of a made backbone, for sizes that ANS does not have; ``seed`` is 0 to 9."""
    size = next(size for size in (25, 50, 100, 200, 400) if size >= places)
    network = network_of(topology_named(f"gabriel/{size}/{seed}"), places=places)
    names = network.names
    return Setting(network.with_mean_delay_ms(_MEAN_DELAY_MS), names[0], names[1], max_replicas)


def reference_problem(
    setting: Setting,
    rate: float,
    *,
    weights: Weights = BASELINE,
    current: Deployment | None = None,
    restricted: bool = False,
) -> ReplicationProblem:
    """Return the planning problem while the source sends ``rate`` tuples a second."""
    places = len(setting.network.names)
    return ReplicationProblem(
        tuple(_operator(setting, name) for name in _SERVICE_RATE_AND_STATE),
        _streams(rate),
        tuple(Node(name, 2, 1, 500) for name in setting.network.names),
        setting.network.links(_LINK_COST),
        Datastore((_DATASTORE_DELAY_MS,) * places, (_BYTES_PER_S,) * places),
        250,
        Bounds(175, 30, 7500),
        weights,
        current,
        restricted,
    )


def _operator(setting: Setting, name: str) -> Operator:
    service_rate, state_bytes = _SERVICE_RATE_AND_STATE[name]
    pinned = {"dataSource": (setting.source,), "globalRank": (setting.sink,)}
    return Operator(
        name,
        Queue(service_rate),
        state_bytes,
        _CODE_BYTES,
        max_replicas=1 if name in _ALONE else setting.max_replicas,
        nodes=pinned.get(name),
    )


def _streams(rate: float) -> tuple[Stream, ...]:
    chain = [name for name in _SERVICE_RATE_AND_STATE if name != "metronome"]
    streams = []
    for source, target in pairwise(chain):
        rate *= _PASSED_ON.get(source, 1.0)
        streams.append(Stream(source, target, rate))
        if source == "computeRouteID":
            streams.append(Stream(source, "metronome", rate))
            streams.append(Stream("metronome", target, _PULSES_A_SECOND))
    return tuple(streams)
