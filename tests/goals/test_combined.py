from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.core.builders import batch, bounds, executors, load, observed

from elastream.core.application import GoalBounds, Observed
from elastream.core.decisions import Decision
from elastream.core.explaining import explained
from elastream.core.goal import Goal, MadePlanner, Question, Think, Wanted
from elastream.core.policy import Policy
from elastream.core.scenes import take_scene
from elastream.foresight.ahead.by_schedule import ScheduledPlanner
from elastream.goals.by_hand import ByHand
from elastream.goals.combined import Combined
from elastream.goals.schedule import Schedule
from elastream.goals.utilisation import Utilisation
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.observation import BatchObservation, Executor
from elastream.model.plan import StepPlan, step_plan
from elastream.resilience.goal import Resilient, ResilientPlanner
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, simulated

SEEN = observed(load([0.35, 0.35], "ab"), executors("a", "b"))


@dataclass(frozen=True)
class Stay:
    """A planner that moves nothing."""

    name: str
    contiguous: bool = False

    def __call__(self, problem: StepProblem, /) -> StepPlan:
        return step_plan(problem, problem.current.nodes_of_tasks)


@dataclass(frozen=True)
class Saying(Goal):
    """Returns a preset target; records all that it was given."""

    says: Wanted
    called: str = "saying"
    asks: tuple[Question, ...] = ()
    plans: bool = True

    @property
    def name(self) -> str:
        return self.called

    def memory(self) -> tuple[object, ...]:
        return ()

    def check(self, bounds: GoalBounds) -> None:
        if bounds.most < 2:
            raise ProblemError("goal", f"{self.called} needs two executors")

    def check_start(self, now_ms: int, executors: tuple[Executor, ...]) -> None:  # noqa: ARG002
        if not executors:
            raise ProblemError("goal", f"{self.called} needs an executor")

    def after_batch(
        self,
        memory: tuple[object, ...],
        observed: Observed,  # noqa: ARG002
        batch: BatchObservation,
        *,
        disturbed: bool,
    ) -> tuple[object, ...]:
        return (*memory, ("heard", batch.batch, disturbed))

    def wanted(
        self,
        memory: tuple[object, ...],
        observed: Observed,  # noqa: ARG002
    ) -> tuple[tuple[object, ...], Wanted, tuple[Question, ...]]:
        return (*memory, "wanted"), self.says, self.asks

    def after_answer(
        self,
        memory: tuple[object, ...],
        observed: Observed,  # noqa: ARG002
        question: Question,  # noqa: ARG002
        answer: Any,
    ) -> tuple[tuple[object, ...], Wanted | None]:
        return (*memory, ("answered", answer)), self.says

    def planner(
        self,
        memory: tuple[object, ...],  # noqa: ARG002
        observed: Observed,  # noqa: ARG002
        executors: int,  # noqa: ARG002
    ) -> MadePlanner | None:
        return Stay(self.called) if self.plans else None

    def after_change(
        self,
        memory: tuple[object, ...],
        observed: Observed,  # noqa: ARG002
        *,
        done: bool,
    ) -> tuple[object, ...]:
        return (*memory, ("reached", done))


HOLD = Wanted("hold", 2, "fine", 0.5, {"busiest": 0.5})
OUT = Wanted("scale-out", 3, "busy", 0.9, {"wanted": 3})
IN = Wanted("scale-in", 1, "calm", 0.1, {"wanted": 1})
EVEN = Wanted("rebalance", 2, "uneven", None, {"wanted": 2}, firm=True)


def combined(number: Wanted, places: Wanted) -> Wanted:
    goal = Combined(how_many=Saying(number), where=Saying(places))
    return goal.wanted(goal.memory(), SEEN)[1]


@pytest.mark.parametrize("change", [OUT, IN])
@pytest.mark.parametrize("places", [HOLD, EVEN, OUT])
def test_another_number_is_wanted_where_the_first_wants_it(change: Wanted, places: Wanted) -> None:
    assert combined(change, places) == change


def test_another_placement_is_wanted_where_the_second_wants_it() -> None:
    assert combined(HOLD, EVEN) == replace(EVEN, utilisation=0.5)


def test_a_rebalance_is_the_business_of_the_second_alone() -> None:
    found = combined(EVEN, HOLD)
    assert (found.need, found.reason) == ("hold", "uneven; fine")
    assert "wanted" not in found.figures


def test_the_number_of_executors_is_the_business_of_the_first_alone() -> None:
    assert combined(HOLD, OUT) == replace(HOLD, reason="fine; busy")


def test_each_remembers_its_own() -> None:
    goal = Combined(how_many=Saying(HOLD), where=Saying(EVEN))
    memory = goal.after_batch(goal.memory(), SEEN, batch(7, "ab"), disturbed=True)
    memory = goal.after_change(memory, SEEN, done=False)
    expected = (("heard", 7, True), ("reached", False))
    assert (memory.how_many, memory.where) == (expected, expected)


def test_an_answer_goes_to_who_has_asked() -> None:
    first, second = Think(lambda: 1), Think(lambda: 2)
    goal = Combined(how_many=Saying(HOLD, asks=(first,)), where=Saying(EVEN, asks=(second,)))
    memory, _, questions = goal.wanted(goal.memory(), SEEN)
    assert questions == (first, second)
    memory, wanted = goal.after_answer(memory, SEEN, second, "of the second")
    assert wanted == EVEN
    memory, wanted = goal.after_answer(memory, SEEN, first, "of the first")
    assert wanted == HOLD
    assert memory.how_many == ("wanted", ("answered", "of the first"))
    assert memory.where == ("wanted", ("answered", "of the second"))
    assert memory.asked == ()


@pytest.mark.parametrize("wish", [OUT, IN])
def test_an_answer_changes_the_number_only_for_the_first(wish: Wanted) -> None:
    first, second = Think(lambda: 1), Think(lambda: 2)
    goal = Combined(how_many=Saying(wish, asks=(first,)), where=Saying(wish, asks=(second,)))
    memory, _, _ = goal.wanted(goal.memory(), SEEN)
    memory, wanted = goal.after_answer(memory, SEEN, second, 2)
    assert wanted == Wanted("hold", 2, wish.reason, wish.utilisation)
    assert goal.after_answer(memory, SEEN, first, 1)[1] == wish


def test_an_answer_changes_the_placement_only_for_the_second() -> None:
    first = Think(lambda: 1)
    goal = Combined(how_many=Saying(EVEN, asks=(first,)), where=Saying(HOLD))
    memory, _, _ = goal.wanted(goal.memory(), SEEN)
    assert goal.after_answer(memory, SEEN, first, 1)[1] == Wanted("hold", 2, EVEN.reason)


def test_questions_that_are_alike_are_kept_apart() -> None:
    def work() -> int:
        return 1

    mine, yours = Think(work), Think(work)
    goal = Combined(how_many=Saying(HOLD, asks=(mine,)), where=Saying(EVEN, asks=(yours,)))
    memory, _, _ = goal.wanted(goal.memory(), SEEN)
    assert goal.after_answer(memory, SEEN, yours, 1)[1] == EVEN


@pytest.mark.parametrize(
    ("where_plans", "planner"), [(True, Stay("second")), (False, Stay("first"))]
)
def test_tasks_are_placed_by_the_second_else_by_the_first(where_plans: bool, planner: Stay) -> None:
    goal = Combined(how_many=Saying(HOLD, "first"), where=Saying(HOLD, "second", plans=where_plans))
    assert goal.planner(goal.memory(), SEEN, 2) == planner


def test_how_busy_it_is_is_reported_as_the_first_sees_it() -> None:
    late = load(
        [0.35, 0.35], "ab", rows_per_s=1.0, arrivals_per_s=2.0, backlog=0, interval_ms=1000.0
    )
    seen = observed(late, executors("a", "b"))
    goal = Combined(how_many=Utilisation(), where=Resilient())
    assert goal.utilisation(seen) == pytest.approx(0.7)
    assert Resilient().utilisation(seen) == pytest.approx(0.35)


def test_marks_and_turning_points_are_those_of_the_goal_for_the_number() -> None:
    number = Utilisation(target=0.4)
    goal = Combined(how_many=number, where=Utilisation())
    assert goal.marks == number.marks
    points = goal.turning_points(goal.memory(), SEEN)
    assert points == number.turning_points(number.memory(), SEEN)
    assert len(points) == 2
    assert not goal.near_scale_out(goal.memory(), SEEN)
    other = Combined(how_many=ByHand(), where=Utilisation())
    assert (other.marks, other.turning_points(other.memory(), SEEN)) == (None, ())
    assert other.near_scale_out(other.memory(), SEEN)


def test_it_answers_whatever_a_goal_can_be_asked() -> None:
    asked = {name for name in vars(Goal) if not name.startswith("_")}
    assert asked - set(vars(Combined)) == set()


def test_the_page_and_explain_know_the_marks_of_a_combined_goal() -> None:
    cluster = SimulatedCluster(even_workload(24, lambda _: 1000.0))
    goal = Combined(how_many=Utilisation(target=0.6), where=Resilient())
    with simulated(cluster, Policy(max_executors=8, goal=goal)) as loop:
        cluster.advance(60)
        assert take_scene(loop.state).loop.marks == Utilisation(target=0.6).marks
        assert "it wants a scale-out to 3." in explained(loop.state)


def test_both_are_asked_whether_they_make_sense() -> None:
    goal = Combined(how_many=ByHand(), where=Saying(HOLD, "second"))
    goal.check(bounds(most=2))
    goal.check_start(0, executors("a"))
    with pytest.raises(ProblemError, match="second needs two executors"):
        goal.check(bounds(most=1))
    with pytest.raises(ProblemError, match="second needs an executor"):
        goal.check_start(0, ())


def test_its_name_is_that_of_both() -> None:
    goal = Combined(how_many=Utilisation(), where=Resilient())
    assert goal.name == "utilisation 0.7, placed resilient, by refined"


@pytest.mark.parametrize("field", ["how_many", "where"])
@pytest.mark.parametrize(
    "wrong", ["utilisation", None, Combined(how_many=ByHand(), where=ByHand())]
)
def test_what_is_no_single_goal_is_named(field: str, wrong: Any) -> None:
    settings = {"how_many": ByHand(), "where": ByHand(), field: wrong}
    with pytest.raises(ProblemError) as caught:
        Combined(**settings)
    assert caught.value.field == f"goal.{field}"


def test_a_schedule_may_say_how_many_and_resilience_where() -> None:
    goal = Combined(how_many=Schedule([(0, 2)]), where=Resilient())
    memory = goal.memory()
    assert isinstance(goal.planner(memory, SEEN, 2), ResilientPlanner)
    other = Combined(how_many=Schedule([(0, 2)]), where=ByHand())
    assert isinstance(other.planner(other.memory(), SEEN, 2), ScheduledPlanner)


def test_an_application_scales_by_utilisation_and_is_placed_for_bursts() -> None:
    rates = {"q": 300.0, "r": 300.0}
    workloads = [
        even_workload(6, lambda _, name=name: rates[name], name=name)  # type: ignore[misc]
        for name in rates
    ]
    cluster = SimulatedCluster(workloads, ClusterSettings(executors=2))
    decisions: list[Decision] = []
    goal = Combined(how_many=Utilisation(), where=Resilient(batches=3))
    policy = Policy(max_executors=4, min_executors=2, goal=goal, cooldown_s=5)
    with simulated(cluster, policy, log=decisions.append):
        cluster.advance(60)
        rates.update(q=900.0, r=900.0)
        cluster.advance(120)
    alive = len(cluster.executors())
    assert alive == 3
    for name in rates:
        nodes = [node for one, node in cluster.where().items() if one.query == name]
        assert sorted(nodes.count(node) for node in set(nodes)) == [2, 2, 2]
    assert {d.kind for d in decisions[-10:-1]} == {"hold"}
    assert " placed for the rates to come" in decisions[-2].reason


def test_the_past_reaches_the_goal_that_says_how_many() -> None:
    goal = Combined(how_many=Utilisation(look_ahead_s=400.0), where=ByHand())
    memory = goal.recalled(iter([(0, 1.0), (100_000, 2.0)]))
    assert memory.how_many == Utilisation(look_ahead_s=400.0).recalled([(0, 1.0), (100_000, 2.0)])
    assert memory.where is None
