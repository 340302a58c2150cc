"""Downtime of all configurations of an operator at once (paper 004, appendix A).

The same equations as :mod:`~elastream.replication.planner.downtime`, written independently over
arrays, so that each can be tested against the other. In the ``restart`` engine the restart of the
whole application (equation 33) is a lower bound for every change. It is included in each operator's
figure, so that in both engines the downtime of the application is the largest figure of its
operators.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from elastream.replication.model.problem import Deployment, ReplicationProblem

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]


def downtimes_ms(
    problem: ReplicationProblem,
    operator: int,
    nodes: _Ints,
    count: NDArray[np.int16],
    size: _Ints,
) -> _Floats:
    """Return the downtime of each configuration; see ``Configurations`` for the arrays."""
    if problem.current is None or not len(size):
        return np.zeros(len(size))
    spec, pauses = problem.operators[operator], problem.downtime == "pause"
    befores = _current_counts(problem, problem.current)
    before, rows = befores[operator], np.arange(len(size))
    old_size = int(before.sum())
    grown, shrunk = np.maximum(size - old_size, 0), np.maximum(old_size - size, 0)
    spawn_ms = np.array([node.spawn_ms for node in problem.nodes], dtype=float)
    round_trip_ms = 2.0 * np.array(problem.datastore.delay_ms, dtype=float)
    bytes_per_ms = np.array(problem.datastore.bytes_per_s, dtype=float) / 1000
    state_bytes = float(spec.state_bytes)
    code_bytes = float(
        spec.code_bytes if pauses else sum(each.code_bytes for each in problem.operators)
    )
    has_code = (before if pauses else befores.sum(axis=0)) > 0

    def transfer_ms(moved: _Floats, node: _Ints | int) -> _Floats:
        return np.where(moved > 0, round_trip_ms[node] + moved / bytes_per_ms[node], 0.0)

    worst = np.zeros(len(size))
    for u, slot in product(np.flatnonzero(before).tolist(), range(nodes.shape[1])):
        v = nodes[:, slot]
        after = count[rows, v]
        if pauses:  # equations 25 to 27
            sent = np.maximum(before[u] - count[:, u], 0) / old_size
            sent = sent + before[u] * grown / (old_size * size)
            stays = np.minimum(before[v], after)
            received = np.maximum(after - before[v], 0) / size + stays * shrunk / (old_size * size)
            spawned = (after > before[v]).astype(float)
        else:  # equation 35
            sent = np.full(len(size), before[u] / old_size)
            received, spawned = after / size, after.astype(float)
        code_ms = transfer_ms(np.where(has_code[v], 0.0, code_bytes), v)
        upload_ms = transfer_ms(state_bytes * sent, u)
        ms = np.maximum(code_ms, upload_ms) if pauses else code_ms + upload_ms
        ms = ms + transfer_ms(state_bytes * received, v) + spawned * spawn_ms[v]
        worst = np.where(v == u, worst, np.maximum(worst, ms))
    total = problem.sync_ms + worst
    if not pauses:
        total = np.maximum(total, _restart_ms(problem, befores, spawn_ms))
    return np.where((count == before).all(axis=1), 0.0, total)


def _restart_ms(problem: ReplicationProblem, befores: _Ints, spawn_ms: _Floats) -> float:
    """Return the largest of equation 39 over the operators."""
    speeds = problem.local_bytes_per_s
    swap = np.inf if speeds is None else np.array(speeds, dtype=float)
    longest = 0.0
    for spec, before in zip(problem.operators, befores, strict=True):
        share = float(spec.state_bytes) * before / before.sum()
        restart_ms = 2000 * share / swap + before * spawn_ms
        longest = max(longest, float(np.where(before > 0, restart_ms, 0.0).max()))
    return problem.sync_ms + longest


def _current_counts(problem: ReplicationProblem, current: Deployment) -> _Ints:
    """Return the current replicas, a row for each operator, a column for each node."""
    number = {node.name: u for u, node in enumerate(problem.nodes)}
    counts = np.zeros((len(problem.operators), len(number)), dtype=np.int64)
    for i, operator in enumerate(problem.operators):
        for node in current[operator.name]:
            counts[i, number[node]] += 1
    return counts
