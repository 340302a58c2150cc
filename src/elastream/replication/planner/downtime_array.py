"""Downtime of all configurations of an operator at once (paper 004, appendix A).

The same equations as :mod:`elastream.replication.planner.downtime`, written independently over
arrays, so that each can be tested against the other. In the ``restart`` engine the restart of the
whole application (equation 33) is a lower bound for every change. It is included in each operator's
figure, so that in both engines the downtime of the application is the largest figure of its
operators.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastream.replication.model.problem import Deployment, ReplicationProblem

_Floats = NDArray[np.float64]
_Counts = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class _Store:
    """The data store and the nodes' times, as arrays over nodes."""

    round_trip_ms: _Floats
    bytes_per_ms: _Floats
    spawn_ms: _Floats

    def transfer_ms(self, size: _Floats, node: NDArray[np.int64] | int) -> _Floats:
        took = self.round_trip_ms[node] + size / self.bytes_per_ms[node]
        return np.where(size > 0, took, 0.0)


def downtimes_ms(
    problem: ReplicationProblem,
    operator: int,
    nodes: NDArray[np.int64],
    count: _Counts,
    size: NDArray[np.int64],
) -> _Floats:
    """Return the downtime of each configuration; see ``Configurations`` for the arrays."""
    if problem.current is None or not len(size):
        return np.zeros(len(size))
    befores = _current_counts(problem, problem.current)
    before = befores[operator]
    store = _Store(
        2.0 * np.array(problem.datastore.delay_ms, dtype=float),
        np.array(problem.datastore.bytes_per_s, dtype=float) / 1000,
        np.array([node.spawn_ms for node in problem.nodes], dtype=float),
    )
    worst = np.zeros(len(size))
    for u in np.flatnonzero(before):
        for slot in range(nodes.shape[1]):
            v = nodes[:, slot]
            if problem.downtime == "pause":
                ms = _paused(problem, operator, store, (int(u), v), before, count, size)
            else:
                ms = _moved(problem, operator, store, (int(u), v), befores, count, size)
            worst = np.where(v == u, worst, np.maximum(worst, ms))
    total = problem.sync_ms + worst
    if problem.downtime == "restart":
        total = np.maximum(total, _restart_ms(problem, store, befores))
    return np.where((count == before).all(axis=1), 0.0, total)


def _paused(
    problem: ReplicationProblem,
    operator: int,
    store: _Store,
    pair: tuple[int, NDArray[np.int64]],
    before: NDArray[np.int64],
    count: _Counts,
    size: NDArray[np.int64],
) -> _Floats:
    """Return equation 27 for the old node u and one node v of each configuration."""
    u, v = pair
    spec = problem.operators[operator]
    old_size = int(before.sum())
    replicas_at_v = count[np.arange(len(size)), v]
    stays = np.minimum(before[v], replicas_at_v)
    grown, shrunk = np.maximum(size - old_size, 0), np.maximum(old_size - size, 0)
    sent = np.maximum(before[u] - count[:, u], 0) / old_size
    sent = sent + before[u] * grown / (old_size * size)
    received = np.maximum(replicas_at_v - before[v], 0) / size + stays * shrunk / (old_size * size)
    code_ms = store.transfer_ms(np.where(before[v] == 0, float(spec.code_bytes), 0.0), v)
    upload_ms = store.transfer_ms(float(spec.state_bytes) * sent, u)
    download_ms = store.transfer_ms(float(spec.state_bytes) * received, v)
    spawn_ms = np.where(replicas_at_v > before[v], store.spawn_ms[v], 0.0)
    return np.asarray(np.maximum(code_ms, upload_ms) + download_ms + spawn_ms)


def _moved(
    problem: ReplicationProblem,
    operator: int,
    store: _Store,
    pair: tuple[int, NDArray[np.int64]],
    befores: NDArray[np.int64],
    count: _Counts,
    size: NDArray[np.int64],
) -> _Floats:
    """Return equation 35 for the old node u and one node v of each configuration."""
    u, v = pair
    before, used = befores[operator], befores.sum(axis=0)
    spec = problem.operators[operator]
    all_code = float(sum(each.code_bytes for each in problem.operators))
    replicas_at_v = count[np.arange(len(size)), v]
    sent = np.full(len(size), before[u] / before.sum())
    code_ms = store.transfer_ms(np.where(used[v] == 0, all_code, 0.0), v)
    upload_ms = store.transfer_ms(float(spec.state_bytes) * sent, u)
    download_ms = store.transfer_ms(float(spec.state_bytes) * (replicas_at_v / size), v)
    return np.asarray(code_ms + upload_ms + download_ms + replicas_at_v * store.spawn_ms[v])


def _restart_ms(problem: ReplicationProblem, store: _Store, befores: NDArray[np.int64]) -> float:
    """Return the largest of equation 39 over the operators."""
    speeds = problem.local_bytes_per_s
    swap = np.inf if speeds is None else np.array(speeds, dtype=float)
    longest = 0.0
    for spec, before in zip(problem.operators, befores, strict=True):
        share = float(spec.state_bytes) * before / before.sum()
        restart_ms = 2000 * share / swap + before * store.spawn_ms
        longest = max(longest, float(np.where(before > 0, restart_ms, 0.0).max()))
    return problem.sync_ms + longest


def _current_counts(problem: ReplicationProblem, current: Deployment) -> NDArray[np.int64]:
    """Return the current replicas, a row for each operator, a column for each node."""
    number = {node.name: u for u, node in enumerate(problem.nodes)}
    counts = np.zeros((len(problem.operators), len(number)), dtype=np.int64)
    for i, operator in enumerate(problem.operators):
        for node in current[operator.name]:
            counts[i, number[node]] += 1
    return counts
