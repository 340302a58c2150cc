from __future__ import annotations

from typing import Any

import pytest

from elastream.core.application import GoalBounds
from elastream.core.policy import Movement, Policy, Timeouts
from elastream.goals.by_hand import ByHand
from elastream.goals.combined import Combined
from elastream.goals.schedule import Schedule
from elastream.goals.utilisation import Utilisation
from elastream.model.errors import ProblemError
from elastream.replication.goal.goal import Replication


def test_only_the_most_executors_must_be_given() -> None:
    policy = Policy(max_executors=4)
    assert policy.bounds == GoalBounds(least=1, most=4, tau=0.2, contiguous=False, idle_s=60.0)
    assert policy.goal == Utilisation()
    assert (policy.planner, policy.planner_name) == ("free-step", "free-step")


def test_the_default_goal_has_a_band_around_its_target() -> None:
    goal = Utilisation()
    assert (goal.high_mark, goal.low_mark) == pytest.approx((0.8, 0.6))
    assert goal.name == "utilisation 0.7"


def test_an_application_may_have_no_executor_at_all() -> None:
    assert Policy(max_executors=4, min_executors=0).bounds.least == 0


@pytest.mark.parametrize(
    ("planner", "contiguous"),
    [("free-step", False), ("free-ahead", False), ("single-step", True), ("transition", True)],
)
def test_planners_by_name_say_whether_tasks_are_consecutive(planner: Any, contiguous: bool) -> None:
    policy = Policy(max_executors=4, planner=planner)
    assert (policy.contiguous, policy.bounds.contiguous) == (contiguous, contiguous)


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("min_executors", {"min_executors": 5}),
        ("min_executors", {"min_executors": -1}),
        ("max_executors", {"max_executors": 0}),
        ("max_executors", {"max_executors": 2.5}),
        ("cooldown_s", {"cooldown_s": -1}),
        ("cooldown_s", {"cooldown_s": float("inf")}),
        ("patience", {"patience": 0}),
        ("tau", {"tau": -0.1}),
        ("planner", {"planner": "best"}),
        ("planner", {"planner": None}),
        ("movement", {"movement": {"tries": 3}}),
        ("timeouts", {"timeouts": Movement()}),
        ("goal", {"goal": "utilisation"}),
        ("goal", {"goal": Utilisation}),
        ("goal.sizes[1]", {"goal": Schedule([(0, 2), (10, 5)])}),
        ("goal.sizes[0]", {"goal": Schedule([(0, 2)]), "min_executors": 3}),
        (
            "goal.max_replicas['q']",
            {"goal": Replication(response_ms=100, max_replicas={"q": 5, "r": 2})},
        ),
        (
            "goal.sizes[0]",
            {"goal": Combined(how_many=Schedule([(0, 9)]), where=ByHand())},
        ),
    ],
)
def test_a_wrong_setting_is_refused_by_name(field: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ProblemError) as caught:
        Policy(**{"max_executors": 4, **settings})
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("group", "field", "settings"),
    [
        (Movement, "movement.bytes_per_batch", {"bytes_per_batch": 0}),
        (Movement, "movement.moves_per_batch", {"moves_per_batch": 0}),
        (Movement, "movement.replans", {"replans": -1}),
        (Movement, "movement.settle_batches", {"settle_batches": -1}),
        (Movement, "movement.tries", {"tries": 0}),
        (Timeouts, "timeouts.action_s", {"action_s": 10}),
        (Timeouts, "timeouts.call_s", {"call_s": 0}),
        (Timeouts, "timeouts.grow_s", {"grow_s": 0}),
        (Timeouts, "timeouts.idle_s", {"idle_s": -1}),
        (Timeouts, "timeouts.smoothing_s", {"smoothing_s": 0}),
        (Movement, "movement.copy_bytes", {"copy_bytes": 0}),
        (Movement, "movement.copy_source", {"copy_source": "elsewhere"}),
        (Movement, "movement.copy_least_bytes", {"copy_least_bytes": -1}),
        (Timeouts, "timeouts.copy_s", {"copy_s": "long"}),
    ],
)
def test_a_wrong_setting_of_a_group_is_refused_as_the_user_writes_it(
    group: type[Movement | Timeouts], field: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(ProblemError) as caught:
        group(**settings)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("goal.target", {"target": 0}),
        ("goal.target", {"target": 1.1, "hysteresis": 0}),
        ("goal.target", {"target": float("nan")}),
        ("goal.hysteresis", {"hysteresis": 0.7}),
        ("goal.hysteresis", {"target": 0.95, "hysteresis": 0.1}),
        ("goal.hysteresis", {"hysteresis": -0.1}),
        ("goal.catch_up_s", {"catch_up_s": "soon"}),
        ("goal.catch_up_s", {"catch_up_s": 0}),
    ],
)
def test_a_wrong_utilisation_is_refused_by_name(field: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ProblemError) as caught:
        Utilisation(**settings)
    assert caught.value.field == field


def test_a_goal_that_asks_for_more_than_the_bounds_says_what_they_are() -> None:
    with pytest.raises(ProblemError) as caught:
        Policy(max_executors=4, goal=Schedule([(0, 5)]))
    assert str(caught.value) == (
        "goal.sizes[0]: 5 is not between min_executors 1 and max_executors 4"
    )
