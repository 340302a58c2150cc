from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tests.replication.goal.scenes import executors, observed, scene

from elastream.core.application import Observed
from elastream.model.migration import StepProblem
from elastream.model.plan import StepPlan
from elastream.replication.goal.goal import Replication
from elastream.replication.goal.placing import ReplicaPlanner, replica_planner

BATCHES = scene({0: "00", 1: "0011"}, run_ms={0: 100.0, 1: 800.0}, rows={0: 40, 1: 200})
OPERATORS = ("query/0",) * 2 + ("query/1",) * 4
KNOWN = frozenset({"0", "1"})
GOAL = Replication(response_ms=2000, tau=0.25)


def on(number: int, *ids: str) -> Observed:
    """The application when this many executors, or these, are alive."""
    nodes = executors(number)
    if ids:
        nodes = tuple(replace(nodes[0], id=name) for name in ids)
    return observed(BATCHES, nodes)


def planner(
    deployment: dict[str, tuple[str, ...]],
    seen: Observed,
    known: frozenset[str] = KNOWN,
    *,
    to_be: int = 4,
) -> ReplicaPlanner | None:
    whole = {"query/source": ("source",), **deployment}
    made = replica_planner(whole, known, seen, to_be, GOAL)
    assert made is None or isinstance(made, ReplicaPlanner)
    return made


def test_a_deployment_names_the_nodes_of_each_operator() -> None:
    made = planner({"query/0": ("1",), "query/1": ("0", "1")}, on(2))
    replicas = {"query/0": (1,), "query/1": (0, 1)}
    assert made == ReplicaPlanner(OPERATORS, replicas, (1, 1), 0.25, 0.9)


def test_executors_that_came_take_the_places_of_those_that_were_to_come() -> None:
    deployment = {"query/0": ("newcomer 1",), "query/1": ("0", "newcomer 0")}
    made = planner(deployment, on(4, "0", "1", "7", "9"))
    assert made is not None
    assert made.replicas == {"query/0": (3,), "query/1": (0, 2)}


def test_advice_counts_with_executors_that_would_come() -> None:
    made = planner({"query/0": ("0",), "query/1": ("newcomer 0", "newcomer 1")}, on(2))
    assert made is not None
    assert made.replicas == {"query/0": (0,), "query/1": (2, 3)}


def test_a_deployment_for_more_executors_than_came_is_carried_out_by_nobody() -> None:
    deployment = {"query/0": ("0",), "query/1": ("newcomer 0", "newcomer 1")}
    assert planner(deployment, on(3), to_be=3) is None
    assert planner(deployment, on(4), to_be=4) is not None


def test_a_deployment_that_counts_on_a_lost_executor_is_carried_out_by_nobody() -> None:
    deployment = {"query/0": ("0",), "query/1": ("0", "1")}
    assert planner(deployment, on(2)) is not None
    assert planner(deployment, on(2, "0", "2")) is None


def test_a_deployment_that_does_not_know_an_operator_is_carried_out_by_nobody() -> None:
    assert planner({"query/1": ("0", "1")}, on(2)) is None


def test_each_operators_tasks_go_to_its_replicas_and_the_least_moves() -> None:
    made = planner({"query/0": ("1",), "query/1": ("0", "1", "2")}, on(3))
    assert made is not None
    work = [0.05, 0.05, 0.2, 0.2, 0.2, 0.2]
    problem = StepProblem.of(work, [5, 5, 30, 10, 20, 20], [0, 0, 0, 0, 1, 1], 3, 1.0)
    plan = made(problem)
    assert isinstance(plan, StepPlan)
    assert plan.assignment.nodes_of_tasks == (1, 1, 0, 2, 1, 1)
    assert plan.cost == 20


def test_executors_with_more_slots_get_more_as_long_as_that_suits_all() -> None:
    nodes = executors(2, cores=[1, 3])
    seen = observed(BATCHES, nodes)
    made = planner({"query/0": ("1",), "query/1": ("0", "1")}, seen)
    assert made is not None
    assert made.slots == (1, 3)
    light = made(StepProblem.of([0.1] * 6, [9] * 6, [1, 1, 0, 0, 0, 0], 2, 1.0))
    assert isinstance(light, StepPlan)
    assert Counter(light.assignment.nodes_of_tasks[2:]) == {0: 1, 1: 3}
    busy = made(StepProblem.of([0.8, 0.8, *[0.45] * 4], [9] * 6, [1, 1, 0, 0, 0, 0], 2, 1.0))
    assert isinstance(busy, StepPlan)
    assert Counter(busy.assignment.nodes_of_tasks[2:]) == {0: 2, 1: 2}, "2.5 of 3 slots, not 2.95"


def test_operators_are_spread_evenly_where_an_executor_would_be_too_busy() -> None:
    made = planner({"query/0": ("0", "1"), "query/1": ("0", "1")}, on(2))
    assert made is not None
    current = [0, 1, 0, 0, 0, 1]
    light = made(StepProblem.of([0.1] * 6, [9] * 6, current, 2, 1.0))
    assert isinstance(light, StepPlan)
    assert light.assignment.nodes_of_tasks == (0, 1, 0, 0, 1, 1), "within tau"
    uneven = replace(made, tau=0.5)
    light = uneven(StepProblem.of([0.1] * 6, [9] * 6, current, 2, 1.0))
    busy = uneven(StepProblem.of([0.25] * 6, [9] * 6, current, 2, 1.0))
    assert isinstance(light, StepPlan)
    assert isinstance(busy, StepPlan)
    assert light.moves == (), "three of four tasks are within this threshold"
    assert len(busy.moves) == 1, "and too many where they make 1.0 of an executor"


def test_within_an_unchanged_set_of_replicas_tasks_move_for_balance() -> None:
    made = planner({"query/0": ("0",), "query/1": ("0", "1")}, on(2))
    assert made is not None
    problem = StepProblem.of([0.1] * 6, [5, 5, 9, 8, 1, 7], [0, 0, 0, 0, 0, 1], 2, 1.0)
    plan = made(problem)
    assert isinstance(plan, StepPlan)
    assert plan.assignment.nodes_of_tasks == (0, 0, 0, 0, 1, 1)
