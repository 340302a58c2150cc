"""Downtime of the change from the current deployment to another (paper 004, appendix A).

Two engines. ``pause`` (A.1): the operators that change stop, exchange code and state through the
data store, and continue; the slowest exchange of the slowest operator counts. ``restart`` (A.2):
any change restarts the whole application, one phase after the other.

Our readings of the paper. Scale-out is ``|new| > |current|`` (equation 25 has the two cases
swapped). A transfer of 0 bytes does not take place and takes 0 ms, including the round trip.
Equation 26 considers only pairs of different nodes, so a replica added on a node that holds all the
others costs only the synchronisation. ``t_{s,v}`` in equation 40 is that of u, and operators that
stay still count there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from elastream.model.checks import Number
from elastream.replication.model.problem import Deployment, Operator, ReplicationProblem


def downtime_ms(problem: ReplicationProblem, deployment: Deployment) -> float:
    """Return equation 10: the longest downtime of an operator; 0 without a current deployment."""
    if problem.current is None:
        return 0.0
    current = {name: Counter(replicas) for name, replicas in problem.current.items()}
    changes = [
        (operator, current[operator.name], Counter(deployment[operator.name]))
        for operator in problem.operators
    ]
    changed = [change for change in changes if change[1] != change[2]]
    if not changed:
        return 0.0
    if problem.downtime == "pause":
        return max(_paused_ms(problem, *change) for change in changed)
    has_code = {node for old in current.values() for node in old}
    restarts = [_restarted_ms(problem, operator, old) for operator, old, _ in changes]
    return max(*restarts, *(_moved_ms(problem, has_code, *change) for change in changed))


def _paused_ms(
    problem: ReplicationProblem, operator: Operator, old: Counter[str], new: Counter[str]
) -> float:
    """Return equations 25 to 32 for an operator that changes."""
    grown, shrunk = new.total() > old.total(), new.total() < old.total()
    redistributed = abs(new.total() - old.total()) / (old.total() * new.total())
    worst = 0.0
    for u, v in _pairs(old, new):
        removed, added = max(old[u] - new[u], 0), max(new[v] - old[v], 0)
        sent = removed / old.total() + (old[u] * redistributed if grown else 0)
        received = added / new.total() + (min(old[v], new[v]) * redistributed if shrunk else 0)
        code_ms = _transfer_ms(problem, v, operator.code_bytes) if old[v] == 0 else 0.0
        upload_ms = _transfer_ms(problem, u, operator.state_bytes * sent)
        download_ms = _transfer_ms(problem, v, operator.state_bytes * received)
        spawn_ms = _spawn_ms(problem, v) if new[v] > old[v] else 0
        worst = max(worst, max(code_ms, upload_ms) + download_ms + spawn_ms)
    return problem.sync_ms + worst


def _moved_ms(
    problem: ReplicationProblem,
    has_code: set[str],
    operator: Operator,
    old: Counter[str],
    new: Counter[str],
) -> float:
    """Return equations 34 to 38 for an operator that changes."""
    all_code = sum(each.code_bytes for each in problem.operators)
    worst = 0.0
    for u, v in _pairs(old, new):
        code_ms = _transfer_ms(problem, v, all_code) if v not in has_code else 0.0
        upload_ms = _transfer_ms(problem, u, operator.state_bytes * old[u] / old.total())
        download_ms = _transfer_ms(problem, v, operator.state_bytes * new[v] / new.total())
        worst = max(worst, code_ms + upload_ms + download_ms + new[v] * _spawn_ms(problem, v))
    return problem.sync_ms + worst


def _restarted_ms(problem: ReplicationProblem, operator: Operator, old: Counter[str]) -> float:
    """Return equations 39 and 40: swap the state out and in, and restart in place."""
    worst = 0.0
    for u, replicas in old.items():
        swap_ms = 0.0
        if problem.local_bytes_per_s is not None:
            share = operator.state_bytes * replicas / old.total()
            swap_ms = 2 * 1000 * share / problem.local_bytes_per_s[_number(problem, u)]
        worst = max(worst, swap_ms + replicas * _spawn_ms(problem, u))
    return problem.sync_ms + worst


def _pairs(old: Counter[str], new: Counter[str]) -> Iterator[tuple[str, str]]:
    return ((u, v) for u in old for v in new if u != v)


def _transfer_ms(problem: ReplicationProblem, node: str, size: float) -> float:
    """Return equations 28 to 30: the round trip to the data store and the bytes."""
    if size == 0:
        return 0.0
    store, number = problem.datastore, _number(problem, node)
    return 2 * store.delay_ms[number] + 1000 * size / store.bytes_per_s[number]


def _spawn_ms(problem: ReplicationProblem, node: str) -> Number:
    return problem.nodes[_number(problem, node)].spawn_ms


def _number(problem: ReplicationProblem, node: str) -> int:
    return next(u for u, each in enumerate(problem.nodes) if each.name == node)
