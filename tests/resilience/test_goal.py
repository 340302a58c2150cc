from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.builders import RUN, batch, bounds, executors, load, observed, task

from elastream.core.application import Observed
from elastream.core.decisions import Decision
from elastream.core.goal import Wanted
from elastream.core.load import QueryLoad, TaskLoad
from elastream.core.policy import Policy
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream.resilience.goal import (
    LightPlanner,
    Resilient,
    ResilientMemory,
    ResilientPlanner,
    heavy_tasks,
)
from elastream.resilience.live_problem import Record
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, simulated

GOAL = Resilient(batches=2)
RUNS = frozenset({("q", RUN), ("r", RUN)})
MEASURED = ResilientMemory(records=dict.fromkeys(RUNS, Record(2)))


def two_queries(
    alive: str = "ab", q: str = "aaaa", r: str = "bbbb", *, work: float = 0.1, **more: Any
) -> Observed:
    loads = {
        "q": load([work] * len(q), q, query="q", rows_per_s=100.0),
        "r": load([work] * len(r), r, query="r", rows_per_s=50.0),
    }
    return observed(loads, executors(*alive), **more)


def placed(seen: Observed, heavy: Sequence[Any] = ()) -> ResilientMemory:
    """What is remembered once the placement that is there was reached."""
    return replace(
        MEASURED,
        executors=seen.alive,
        runs=RUNS,
        heavy={one: seen.where(one) for one in heavy},
    )


def wanted(memory: ResilientMemory, seen: Observed, goal: Resilient = GOAL) -> Wanted:
    kept, found, questions = goal.wanted(memory, seen)
    assert (kept, questions) == (memory, ())
    return found


# When a placement is made


def test_every_query_is_measured_before_the_first_placement() -> None:
    seen = two_queries()
    memory = GOAL.memory()
    for number in range(2):
        for name, where in (("q", "aaaa"), ("r", "bbbb")):
            assert wanted(memory, seen).need == "hold"
            seen_batch = batch(number, where, query=name)
            memory = GOAL.after_batch(memory, seen, seen_batch, disturbed=False)
    assert {run: record.number for run, record in memory.records.items()} == dict.fromkeys(RUNS, 2)
    assert wanted(memory, seen) == Wanted(
        "rebalance",
        2,
        "a placement for 2 executors and 2 queries, at the start",
        0.4,
        {"wanted": 2},
        firm=True,
    )


def test_how_many_are_being_measured_is_reported() -> None:
    one_known = ResilientMemory(records={("q", RUN): Record(2)})
    assert wanted(one_known, two_queries()).reason == "1 query is being measured"
    assert wanted(MEASURED, observed({}, executors("a"))).reason == "no query takes part"


def test_an_idle_query_is_not_waited_for() -> None:
    seen = two_queries()
    queries = {**seen.queries, "r": replace(seen.queries["r"], idle_since_ms=0)}
    one_known = ResilientMemory(records={("q", RUN): Record(2)})
    assert wanted(one_known, replace(seen, queries=queries)).need == "rebalance"


def test_a_query_that_was_idle_when_others_were_placed_is_placed_once_it_is_measured() -> None:
    seen = two_queries()
    idle = {**seen.queries, "r": replace(seen.queries["r"], idle_since_ms=0)}
    memory = ResilientMemory(records={("q", RUN): Record(2)})
    memory = GOAL.after_change(memory, replace(seen, queries=idle), done=True)
    assert wanted(memory, replace(seen, queries=idle)).need == "hold"
    assert wanted(memory, seen).reason == "1 query is being measured"
    memory = replace(memory, records=MEASURED.records)
    assert wanted(memory, seen).reason.endswith("or woke up")
    assert wanted(memory, replace(seen, queries=idle)).need == "rebalance", "though idle again"


def test_nothing_is_placed_while_every_query_is_idle_and_none_was_measured() -> None:
    seen = two_queries()
    idle = {name: replace(query, idle_since_ms=0) for name, query in seen.queries.items()}
    assert wanted(GOAL.memory(), replace(seen, queries=idle)).reason == "every query is idle"


def test_a_placement_that_still_fits_is_left_alone() -> None:
    seen = two_queries()
    assert wanted(placed(seen), seen) == Wanted(
        "hold", 2, "placed for the rates to come, busiest executor 0.40", 0.4
    )


@pytest.mark.parametrize(
    ("alive", "why"),
    [("a", "1 executor removed and 0 added"), ("abc", "0 executors removed and 1 added")],
)
def test_executors_that_come_or_go_need_a_new_placement(alive: str, why: str) -> None:
    memory = placed(two_queries())
    found = wanted(memory, two_queries(alive))
    assert (found.need, found.firm) == ("rebalance", True)
    assert found.reason.endswith(why)


def test_a_query_that_was_started_again_needs_a_new_placement() -> None:
    memory = placed(two_queries())
    seen = two_queries()
    again = {**seen.queries, "r": replace(seen.queries["r"], run="run 2")}
    memory = replace(memory, records={**memory.records, ("r", "run 2"): Record(2)})
    found = wanted(memory, replace(seen, queries=again))
    assert found.reason.endswith("queries started, stopped, restarted or woke up")


def test_batches_of_runs_that_have_ended_are_forgotten() -> None:
    memory = ResilientMemory(records={("q", "run 0"): Record(9), ("q", RUN): Record(1)})
    memory = GOAL.after_batch(memory, two_queries(), batch(0, "aaaa", query="q"), disturbed=False)
    assert {run: record.number for run, record in memory.records.items()} == {("q", RUN): 2}


def test_the_bounds_come_first() -> None:
    assert wanted(MEASURED, two_queries(within=bounds(least=3))).executors == 3


def test_a_change_that_was_given_up_is_not_remembered_as_a_placement() -> None:
    seen = two_queries()
    assert GOAL.after_change(MEASURED, seen, done=False) == MEASURED
    reached = GOAL.after_change(MEASURED, seen, done=True)
    assert (reached.executors, reached.runs) == (seen.alive, RUNS)


# Heavy stays, light moves


def with_states(work: Sequence[float], where: str, sizes: Sequence[float]) -> Observed:
    tasks = {
        task(j): TaskLoad(node, amount, 10.0, size, measured=True)
        for j, (amount, node, size) in enumerate(zip(work, where, sizes, strict=True))
    }
    known = QueryLoad(tasks=tasks, run=RUN, batch=0, until_ms=1000, rows_per_s=10.0)
    return observed(known, executors(*sorted(set(where) | {"a", "b"})))


@pytest.mark.parametrize(
    ("share", "heavy"), [(0.8, [1, 3]), (0.5, [1]), (1.0, [1, 3, 0]), (0.0, [])]
)
def test_heavy_tasks_have_the_largest_states_up_to_a_share_of_all(
    share: float, heavy: list[int]
) -> None:
    seen = with_states([0.1] * 4, "aabb", [10, 60, 0, 30])
    assert heavy_tasks(seen, share) == [task(j) for j in heavy]


def test_heavy_tasks_are_remembered_where_they_were_put() -> None:
    seen = with_states([0.1] * 4, "aabb", [10, 60, 0, 30])
    assert GOAL.after_change(GOAL.memory(), seen, done=True).heavy == {task(1): "a", task(3): "b"}


def busy_executor(heavy: Sequence[int], work: Sequence[float] = (0.7, 0.2, 0.2, 0.1)) -> Wanted:
    seen = with_states(work, "aaab", [60, 1, 1, 1])
    memory = ResilientMemory(
        executors=seen.alive,
        runs=frozenset({("query", RUN)}),
        heavy={task(j): "a" for j in heavy},
        records={("query", RUN): Record(9)},
    )
    return wanted(memory, seen)


def test_an_executor_that_is_too_busy_gives_light_tasks_away_in_time() -> None:
    found = busy_executor(heavy=[0])
    assert (found.need, found.firm) == ("rebalance", False)
    assert found.reason == "executor a is 1.10 busy, its light tasks may move"


def test_heavy_tasks_stay_however_busy_it_gets() -> None:
    assert busy_executor(heavy=[0, 1, 2]).need == "hold"


def test_a_light_task_that_would_make_another_as_busy_stays() -> None:
    assert busy_executor(heavy=[], work=(0.0, 0.0, 0.95, 0.0)).need == "hold"


def test_work_outside_state_makes_an_executor_busy_too() -> None:
    seen = with_states([0.5, 0.2, 0.1, 0.1], "aaab", [60, 1, 1, 1])
    memory = GOAL.after_change(
        ResilientMemory(records={("query", RUN): Record(9)}), seen, done=True
    )
    assert wanted(memory, seen).need == "hold"
    assert wanted(memory, replace(seen, other={"a": 0.3})).need == "rebalance"


@st.composite
def light_problems(draw: st.DrawFn) -> tuple[StepProblem, frozenset[int]]:
    tasks, nodes = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    work = draw(st.lists(st.integers(1, 9), min_size=tasks, max_size=tasks))
    state = draw(st.lists(st.integers(0, 50), min_size=tasks, max_size=tasks))
    where = draw(st.lists(st.integers(0, nodes - 1), min_size=tasks, max_size=tasks))
    heavy = draw(st.sets(st.integers(0, tasks - 1)))
    return StepProblem.of(work, state, where, nodes, 2.0), frozenset(heavy)


@given(light_problems())
@settings(max_examples=80)
def test_the_planner_for_light_tasks_moves_no_heavy_one(
    given_problem: tuple[StepProblem, frozenset[int]],
) -> None:
    problem, heavy = given_problem
    plan = LightPlanner(heavy)(problem)
    if isinstance(plan, StepPlan):
        assert not {move.task for move in plan.moves} & heavy


@pytest.mark.parametrize(("most", "nodes"), [(93, (0, 0, 1, 1, 1)), (97, (0, 0, 0, 1, 1))])
def test_light_tasks_go_where_their_state_may_be(most: int, nodes: tuple[int, ...]) -> None:
    problem = StepProblem.of_stages(
        [1, 1, 1, 1, 1], [90, 3, 3, 3, 3], [0, 0, 0, 1, 1], 2, 9.0, memory=[most, 20]
    )
    plan = LightPlanner(frozenset({0}))(problem)
    assert isinstance(plan, StepPlan)
    assert sorted(plan.assignment.nodes_of_tasks) == sorted(nodes)


def test_light_tasks_even_out_what_heavy_ones_leave() -> None:
    problem = StepProblem.of([4, 1, 1, 1, 1], [90, 1, 1, 1, 1], [0, 0, 0, 0, 0], 2, 0.1)
    plan = LightPlanner(frozenset({0}))(problem)
    assert isinstance(plan, StepPlan)
    assert plan.assignment.nodes_of_tasks == (0, 1, 1, 1, 1)


# Where tasks go


def planner(seen: Observed, goal: Resilient = GOAL) -> ResilientPlanner:
    made = goal.planner(MEASURED, seen, len(seen.executors))
    assert isinstance(made, ResilientPlanner)
    return made


def test_costs_are_cores_by_the_rows_of_the_query() -> None:
    problem = planner(two_queries(q="aa", r="b")).problem
    assert [list(row) for row in problem.load] == [[0.1 / 100, 0], [0.1 / 100, 0], [0, 0.1 / 50]]


def test_queries_that_read_the_same_stream_share_a_variable() -> None:
    shared = Resilient(inputs={"q": "topic", "r": "topic"})
    problem = planner(two_queries(q="aa", r="b"), shared).problem
    assert [list(row) for row in problem.load] == [[0.1 / 100], [0.1 / 100], [0.1 / 50]]


def test_an_executor_can_bear_what_its_other_work_leaves() -> None:
    seen = two_queries(other={"a": 0.25, "b": 3.0})
    assert planner(seen).problem.capacity == pytest.approx((0.75, 0.1))


def test_without_work_all_tasks_of_a_stream_count_alike() -> None:
    problem = planner(two_queries(q="a", r="b", work=0.0)).problem
    assert [list(row) for row in problem.load] == [[1.0, 0.0], [0.0, 1.0]]


def test_each_stream_is_spread_over_the_executors() -> None:
    problem = StepProblem.of([0.1] * 8, [10] * 8, [0, 0, 0, 0, 1, 1, 1, 1], 2, 0.2)
    plan = planner(two_queries())(problem)
    assert isinstance(plan, StepPlan)
    nodes = plan.assignment.nodes_of_tasks
    assert (sorted(nodes[:4]), sorted(nodes[4:])) == ([0, 0, 1, 1], [0, 0, 1, 1])
    assert plan.cost == 40, "and no more is moved than that takes"


def test_of_executors_that_are_alike_each_keeps_what_it_has() -> None:
    first = planner(two_queries())(StepProblem.of([0.1] * 8, [10] * 8, [0] * 8, 2, 0.2))
    assert isinstance(first, StepPlan)
    other_way_round = tuple(1 - node for node in first.assignment.nodes_of_tasks)
    problem = StepProblem.of([0.1] * 8, [10] * 8, other_way_round, 2, 0.2)
    plan = planner(two_queries())(problem)
    assert isinstance(plan, StepPlan)
    assert plan.cost == 0


def test_where_executors_leave_those_with_the_most_state_stay() -> None:
    seen = two_queries("abc", q="aabc", r="bbcc")
    problem = StepProblem.of(
        [0.1] * 8, [1, 1, 90, 90, 90, 90, 90, 90], [0, 0, 1, 2, 1, 1, 2, 2], 2, 0.2
    )
    plan = planner(seen)(problem)
    assert isinstance(plan, StepPlan)
    assert set(plan.assignment.nodes_of_tasks) == {1, 2}


def test_executors_that_are_to_come_get_their_share() -> None:
    problem = StepProblem.of([0.1] * 8, [10] * 8, [0, 0, 0, 0, 1, 1, 1, 1], 4, 0.2)
    plan = planner(two_queries())(problem)
    assert isinstance(plan, StepPlan)
    nodes = plan.assignment.nodes_of_tasks
    assert (sorted(nodes[:4]), sorted(nodes[4:])) == ([0, 1, 2, 3], [0, 1, 2, 3])


@pytest.mark.parametrize("method", ["rod", "refined"])
def test_either_method_gives_a_placement_and_says_so(method: Any) -> None:
    made = planner(two_queries(), Resilient(method=method))
    plan = made(StepProblem.of([0.1] * 8, [10] * 8, [0] * 8, 2, 0.2))
    assert not isinstance(plan, Infeasible)
    assert made.explain(plan) == f"{method} on 2 executors"
    assert made.name == method


def test_before_anything_is_measured_the_planner_of_the_policy_places() -> None:
    seen = observed({"q": QueryLoad()}, executors("a"))
    assert GOAL.planner(GOAL.memory(), seen, 1) is None


def test_a_placement_that_holds_is_changed_by_light_tasks_alone() -> None:
    seen = two_queries()
    memory = placed(seen, [task(1, "q"), task(0, "r")])
    assert GOAL.planner(memory, seen, 2) == LightPlanner(frozenset({1, 4}))
    assert isinstance(GOAL.planner(memory, seen, 3), ResilientPlanner), "for other executors all"


# Settings


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("goal.method", {"method": "best"}),
        ("goal.heavy_share", {"heavy_share": 1.1}),
        ("goal.heavy_share", {"heavy_share": -0.1}),
        ("goal.busiest", {"busiest": 0}),
        ("goal.busiest", {"busiest": 1.1}),
        ("goal.batches", {"batches": 0}),
    ],
)
def test_a_wrong_setting_is_refused_by_name(field: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ProblemError) as caught:
        Resilient(**settings)
    assert caught.value.field == field


# In the loop


def test_an_application_is_placed_once_and_again_when_an_executor_is_lost() -> None:
    workloads = [even_workload(4, lambda _: 200.0, name=name) for name in ("q", "r")]
    cluster = SimulatedCluster(workloads, ClusterSettings(executors=2))
    decisions: list[Decision] = []
    policy = Policy(max_executors=4, min_executors=2, goal=GOAL, cooldown_s=5)
    with simulated(cluster, policy, log=decisions.append):
        cluster.advance(60)
        spread = cluster.where()
        cluster.kill("0")
        cluster.advance(60)
    for name in ("q", "r"):
        nodes = [node for one, node in spread.items() if one.query == name]
        assert sorted(nodes) == ["0", "0", "1", "1"]
    kinds = [d.kind for d in decisions if d.kind not in ("hold", "wait", "join", "migrate")]
    assert kinds == [
        *("attach", "rebalance", "plan", "done"),
        *("lost", "scale-out", "plan", "done"),
        "detach",
    ]
    assert len(cluster.executors()) == 2
