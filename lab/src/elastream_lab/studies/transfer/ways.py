"""The ways in which the state of a migration can be sent, and how long each should take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from elastream.core.ports import Ticket
from elastream.model.observation import TaskId
from elastream.placement.transfer.forecast import forecast
from elastream.testing import ClusterSettings, SimulatedCluster, SimulatedTask, Workload
from elastream.testing.workload import Volume, in_phases_s
from elastream_lab.studies.transfer.fair_shares import fairly_shared_s
from elastream_lab.studies.transfer.migrations import Migration
from elastream_lab.studies.transfer.whole_tasks import in_phase_order, in_turn_s

Way = Literal["phases", "in turn", "at once"]
"""In turn: whole tasks in the order of the phases, each as soon as both its ends are free."""
WAYS: tuple[Way, ...] = ("phases", "in turn", "at once")
_TIMES: Mapping[Way, Callable[[Sequence[Volume], float], float]] = {
    "phases": in_phases_s,
    "in turn": in_turn_s,
    "at once": fairly_shared_s,
}
Piece = tuple[int, int, int]
"""Task, first byte, how many bytes."""
Order = tuple[int, int, tuple[Piece, ...]]
"""Sender, receiver, what is sent."""


def estimated_s(migration: Migration, way: Way, bytes_per_s: float) -> float:
    """Return how long it should take: by the forecast, or by a model of whole tasks or links."""
    if way == "phases":
        return forecast(migration.problem, migration.plan, bytes_per_s).seconds
    moves = migration.plan.moves
    return _TIMES[way]([(m.source, m.target, float(m.state)) for m in moves], bytes_per_s)


def whole_tasks(migration: Migration) -> list[Order]:
    """Return whole tasks in the order in which the loop has copies of them sent."""
    moves = migration.plan.moves
    order = in_phase_order([(move.source, move.target, float(move.state)) for move in moves])
    return [
        (
            moves[place].source,
            moves[place].target,
            ((moves[place].task, 0, int(moves[place].state)),),
        )
        for place in order
    ]


def free_to_begin(waiting: Sequence[Order], under_way: Collection[Order]) -> list[Order]:
    """Return what can begin now: no node sends to two others, or receives from two."""
    sending = {source for source, *_ in under_way}
    receiving = {target for _, target, _ in under_way}
    begun = []
    for order in waiting:
        source, target, _ = order
        if source not in sending and target not in receiving:
            begun.append(order)
            sending.add(source)
            receiving.add(target)
    return begun


def rounds(migration: Migration, way: Literal["phases", "at once"]) -> list[list[Order]]:
    """Return what is sent together, round after round; at once is one round."""
    if way == "at once":
        pairs: dict[tuple[int, int], list[Piece]] = {}
        for move in migration.plan.moves:
            piece = (move.task, 0, int(move.state))
            pairs.setdefault((move.source, move.target), []).append(piece)
        return [[(*pair, tuple(pieces)) for pair, pieces in pairs.items()]]
    sent: dict[int, int] = {}
    found = []
    (batch,) = forecast(migration.problem, migration.plan, 1).batches
    for phase in batch.phases:
        orders: list[Order] = []
        for transfer in phase.transfers:
            pieces = []
            for part in transfer.parts:
                first = sent.get(part.task, 0)
                pieces.append((part.task, first, int(part.amount)))
                sent[part.task] = first + int(part.amount)
            orders.append((transfer.source, transfer.target, tuple(pieces)))
        found.append(orders)
    return found


def simulated_s(migration: Migration, way: Way, bytes_per_s: float) -> float:
    """Return how much longer the batch of a simulated cluster takes that moves all of it."""
    problem = migration.problem
    tasks = tuple(
        SimulatedTask(0, j, 1 / len(problem.state), 0.0, int(size))
        for j, size in enumerate(problem.state)
    )
    settings = ClusterSettings(
        executors=migration.nodes,
        bytes_per_s=bytes_per_s,
        transfer_s=_TIMES[way],
        load_ms_per_mib=0.0,
    )
    cluster = SimulatedCluster(Workload(tasks, lambda _: 100.0), settings)
    before, after = problem.current.nodes_of_tasks, migration.plan.assignment.nodes_of_tasks
    _batch_ms(cluster, before)
    usual_ms = _batch_ms(cluster, before)
    return (_batch_ms(cluster, after) - usual_ms) / 1000


def _batch_ms(cluster: SimulatedCluster, nodes_of_tasks: Sequence[int]) -> float:
    """Return how long the first batch takes that has its tasks on these nodes."""
    (query,) = cluster.queries.values()
    wanted: Mapping[TaskId, str] = {
        task: str(node) for task, node in zip(query.workload.task_ids, nodes_of_tasks, strict=True)
    }
    cluster.place(query.workload.name, wanted, ticket=Ticket())
    while True:
        batch = cluster.run_batch()
        assert batch is not None  # noqa: S101 - rows always come
        if {each.task: each.executor for each in batch.tasks} == wanted:
            return batch.duration_ms
