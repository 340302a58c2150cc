"""What is sent when, and how long that should take."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pytest

from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream_lab.studies.transfer.migrations import Migration, made_migrations, planned
from elastream_lab.studies.transfer.study import TransferStudy, transfer_figure
from elastream_lab.studies.transfer.ways import (
    WAYS,
    Order,
    Way,
    estimated_s,
    free_to_begin,
    rounds,
    simulated_s,
    whole_tasks,
)

MADE = made_migrations(0)


@pytest.mark.parametrize("way", ["phases", "at once"])
@pytest.mark.parametrize("migration", MADE, ids=lambda each: each.name)
def test_every_byte_is_sent_once_from_where_it_was_to_where_it_shall_be(
    migration: Migration, way: Literal["phases", "at once"]
) -> None:
    moves = {move.task: move for move in migration.plan.moves}
    sent: Counter[int] = Counter()
    for orders in rounds(migration, way):
        if way == "phases":
            for end in (0, 1):
                nodes = [order[end] for order in orders]
                assert len(set(nodes)) == len(nodes), "a node has two transfers in a phase"
        for source, target, pieces in orders:
            for task, first, size in pieces:
                assert (moves[task].source, moves[task].target) == (source, target)
                assert first == sent[task], "a piece is left out, or sent again"
                sent[task] += size
    assert sent == {task: move.state for task, move in moves.items()}


@pytest.mark.parametrize("migration", MADE, ids=lambda each: each.name)
def test_whole_tasks_begin_in_turn_where_both_ends_are_free(migration: Migration) -> None:
    orders, taken_s = whole_tasks(migration), 0.0
    pieces = [piece for *_, sent in orders for piece in sent]
    moves = migration.plan.moves
    assert sorted(pieces) == sorted((m.task, 0, m.state) for m in moves)
    waiting, ends = list(orders), dict[Order, float]()
    while waiting or ends:
        for order in free_to_begin(waiting, ends):
            waiting.remove(order)
            ends[order] = taken_s + sum(size for *_, size in order[2]) / 4e6
        taken_s = min(ends.values())
        ends = {order: end_s for order, end_s in ends.items() if end_s > taken_s}
    assert taken_s == pytest.approx(estimated_s(migration, "in turn", 4e6))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("migration", MADE, ids=lambda each: each.name)
def test_the_simulated_cluster_takes_what_is_estimated(migration: Migration, way: Way) -> None:
    estimated = estimated_s(migration, way, 4e6)
    assert simulated_s(migration, way, 4e6) == pytest.approx(estimated)
    assert estimated >= estimated_s(migration, "phases", 4e6) * (1 - 1e-9)


def test_a_migration_of_a_user_is_planned_and_one_that_moves_nothing_is_refused() -> None:
    problem = StepProblem.of([1] * 4, [10] * 4, [[0, 2], [2, 4]], 4, 0.0)
    migration = planned("mine", problem)
    assert (migration.nodes, migration.state_bytes) == (4, 20)
    figure = transfer_figure(TransferStudy((migration,), "given", 10.0), print)
    assert figure.trend_holds
    assert [row["simulated_s"] for row in figure.rows] == [1.0, 1.0, 1.0]
    still = StepProblem.of([1] * 4, [10] * 4, [[0, 2], [2, 4]], 2, 0.0)
    with pytest.raises(ProblemError, match="mine: nothing moves"):
        planned("mine", still)
