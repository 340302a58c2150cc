"""The problem of a running application: rates, joins and transfers as its batches show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.core.builders import RUN, batch, executors, load, observed

from elastream.core.application import Observed
from elastream.core.events import BatchObserved, Fact
from elastream.core.policy import Policy
from elastream.model.migration import StepProblem
from elastream.model.observation import BatchObservation, OperatorGraph, Side, TaskObservation
from elastream.model.plan import StepPlan
from elastream.resilience.goal import Resilient, ResilientPlanner
from elastream.resilience.live_problem import Record, live_problem
from elastream.resilience.model.problem import ResilientProblem
from elastream.testing import (
    ClusterSettings,
    SimulatedCluster,
    Workload,
    even_workload,
    rate_steps,
    simulated,
)
from elastream.testing.workload import SimulatedTask

KEY = ("query", RUN)


def record(*batches: BatchObservation) -> Record:
    found = Record()
    for each in batches:
        found = found.with_batch(each, disturbed=False)
    return found


def problem(
    seen: Observed, records: Mapping[tuple[str, str], Record], **more: Any
) -> ResilientProblem:
    return live_problem(seen, records, more.pop("inputs", {}), **{"lowest_rates": True, **more})


# Records


def test_the_last_batches_in_which_nothing_moved_are_kept() -> None:
    batches = [batch(number, "ab") for number in range(15)]
    found = record(*batches)
    assert (found.number, found.batches) == (15, tuple(batches[5:]))
    assert found.with_batch(batch(15, "ab"), disturbed=True).batches == found.batches


def test_the_least_rate_of_a_source_is_that_of_the_batch_with_the_fewest_rows() -> None:
    rows = [(300, 50), (200, 80)]
    batches = [replace(batch(0, "ab"), source_rows=each) for each in rows]
    first = batch(0, "ab", interval_ms=None, rows=1)
    assert record(first, *batches).least_rates == (200, 50)


# Lower bounds (6.1)


def two_queries() -> tuple[Observed, dict[tuple[str, str], Record]]:
    seen = observed(
        {name: load([0.1, 0.1], "ab", query=name, rows_per_s=100.0) for name in ("q", "r")},
        executors("a", "b"),
    )
    records = {
        (name, RUN): record(*(batch(n, "ab", query=name, rows=rows + n) for n in range(3)))
        for name, rows in (("q", 80), ("r", 40))
    }
    return seen, records


def test_rates_are_taken_not_to_fall_below_the_lowest_so_far() -> None:
    seen, records = two_queries()
    assert problem(seen, records).lower_bound == (80, 40)
    assert problem(seen, records, lowest_rates=False).lower_bound == (0, 0)


def test_a_query_that_is_idle_has_no_lower_bound() -> None:
    seen, records = two_queries()
    idle = {**seen.queries, "r": replace(seen.queries["r"], idle_since_ms=0)}
    assert problem(replace(seen, queries=idle), records).lower_bound == (80, 0)


def test_work_that_does_not_grow_with_rows_is_taken_to_be_in_proportion_to_them() -> None:
    seen, records = two_queries()
    assert {row[:2] for row in problem(seen, records).load} == {(0.001, 0), (0, 0.001)}
    few = {key: record(*known.batches[:1]) for key, known in records.items()}
    assert problem(seen, few).load[0] == pytest.approx((0.1 / 80, 0)), "one batch has no line"


def test_a_stream_that_queries_share_has_the_lowest_rate_of_any() -> None:
    seen, records = two_queries()
    shared = problem(seen, records, inputs={"q": "topic", "r": "topic"})
    assert shared.lower_bound == (40,)


def test_an_overload_at_the_lowest_rates_is_placed_without_a_lower_bound() -> None:
    seen, records = two_queries()
    busy = {
        name: replace(query, load=load([2.0, 2.0], "ab", query=name, rows_per_s=100.0))
        for name, query in seen.queries.items()
    }
    slow = {key: record(*(replace(each, tasks=tuple(
        replace(task, run_ms=2000.0) for task in each.tasks)) for each in known.batches))
        for key, known in records.items()}  # fmt: skip
    goal = Resilient(batches=1)
    memory = replace(goal.memory(), records=slow)
    planner = goal.planner(memory, replace(seen, queries=busy), 2)
    assert isinstance(planner, ResilientPlanner)
    plan = planner(StepProblem.of([2.0] * 4, [1] * 4, [0] * 4, 2, 0.2))
    assert isinstance(plan, StepPlan)
    nodes = plan.assignment.nodes_of_tasks
    assert (sorted(nodes[:2]), sorted(nodes[2:])) == ([0, 1], [0, 1])


# On a simulated cluster


class Chain(Workload):
    """A query whose operator 1 feeds operator 0, or that joins two sources in operator 0."""

    @property
    def graph(self) -> OperatorGraph:
        if any(task.operator for task in self.tasks):
            return OperatorGraph({0: None, 1: 0}, {0: (Side((), (1,)),), 1: (Side((0,), ()),)})
        return OperatorGraph({0: None}, {0: (Side((0,), ()), Side((1,), ()))})


class ReportingCluster(SimulatedCluster):
    """Reports of each task what only a real cluster measures."""

    more: Callable[[TaskObservation], TaskObservation]
    sources: int = 1

    def _report(self, fact: Fact) -> None:
        if isinstance(fact, BatchObserved):
            each = fact.batch
            tasks = tuple(map(type(self).more, each.tasks))
            rows = (each.rows // self.sources,) * self.sources
            fact = BatchObserved(replace(each, tasks=tasks, source_rows=rows))
        super()._report(fact)


def workload(name: str, operators: int, rate: Callable[[float], float], skew: int = 1) -> Chain:
    shares = [skew, 1]
    tasks = tuple(
        SimulatedTask(operator, j, share / sum(shares), 1.0, 1 << 16)
        for operator in range(operators)
        for j, share in enumerate(shares)
    )
    return Chain(tasks, rate, name=name)


def placed(cluster: SimulatedCluster, goal: Resilient) -> tuple[dict[Any, str], ResilientProblem]:
    """Return where tasks are in the end, and the problem that the goal has by then."""
    policy = Policy(max_executors=2, min_executors=2, goal=goal, cooldown_s=5)
    with simulated(cluster, policy) as loop:
        cluster.advance(120)
        memory, seen = loop.state.memory, loop.state.observed
        planner = replace(goal, batches=1).planner(replace(memory, executors=frozenset()), seen, 2)
    assert isinstance(planner, ResilientPlanner)
    return cluster.where(), planner.problem


def test_the_loop_knows_the_lowest_rates() -> None:
    rates = (rate_steps({0: 200.0, 60: 300.0}), rate_steps({0: 50.0}))
    workloads = [even_workload(2, rate, name=name) for name, rate in zip("qr", rates, strict=True)]
    _, found = placed(SimulatedCluster(workloads, ClusterSettings()), Resilient(batches=2))
    assert found.lower_bound == pytest.approx((200, 50), rel=0.1)


class Joining(ReportingCluster):
    sources = 2

    @staticmethod
    def more(task: TaskObservation) -> TaskObservation:
        half = task.rows // 2
        return replace(task, sides=(half, half), state_rows=400, rows_out=task.rows)


def test_a_join_has_a_variable_of_its_own() -> None:
    cluster = Joining(workload("q", 1, rate_steps({0: 200.0})), ClusterSettings())
    where, found = placed(cluster, Resilient(batches=2))
    assert len(found.lower_bound) == 3, "both sources, and the rows that are put out"
    assert found.lower_bound[2] == 0
    assert [row[:2] for row in found.load] == [(0, 0)] * 2
    assert all(row[2] > 0 for row in found.load)
    assert len(set(where.values())) == 2


class Talking(ReportingCluster):
    @staticmethod
    def more(task: TaskObservation) -> TaskObservation:
        task = replace(task, rows_out=task.rows)
        if task.task.operator == 1:
            return task
        waited_ms = task.run_ms
        return replace(
            task, run_ms=task.run_ms + waited_ms, rows_fetched=task.rows, fetch_ms=waited_ms
        )


class Silent(Talking):
    @staticmethod
    def more(task: TaskObservation) -> TaskObservation:
        return replace(task, rows_out=task.rows)


@pytest.mark.parametrize("kind", [Talking, Silent])
def test_what_talks_to_each_other_is_kept_together_if_that_costs(
    kind: type[ReportingCluster],
) -> None:
    workloads = [workload(name, 2, rate_steps({0: 100.0}), skew=2) for name in ("q", "r")]
    where, found = placed(kind(workloads, ClusterSettings()), Resilient(batches=2))
    executors_of = {
        name: {node for task, node in where.items() if task.query == name} for name in ("q", "r")
    }
    costs = {cost for arc in found.arcs for cost in arc.transfer if cost}
    if kind is Talking:
        assert len(found.arcs) == 8
        assert costs
        assert all(len(nodes) == 1 for nodes in executors_of.values()), "a query on each"
    else:
        assert not costs
        assert all(len(nodes) == 2 for nodes in executors_of.values())
