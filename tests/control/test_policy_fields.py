"""Fields of a policy as a person types them."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from elastream import ByHand, Policy, ProblemError, Timeouts
from elastream.control.policy_fields import with_fields

POLICY = Policy(max_executors=8)


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("max_executors", "4", 4),
        ("tau", "0.3", 0.3),
        ("advise_only", "true", True),
        ("largest_step", "2", 2),
        ("largest_step", "none", None),
        ("planner", "single-step", "single-step"),
        ("goal", "by-hand", ByHand()),
        ("excluded_periods", "08:00-09:30, Mon-Fri 22:00-06:00", None),
        ("excluded_periods", "none", ()),
    ],
)
def test_a_field_is_read_by_its_type(field: str, text: str, value: object) -> None:
    if field == "excluded_periods" and value is None:
        value = ("08:00-09:30", "Mon-Fri 22:00-06:00")
    policy = replace(POLICY, largest_step=3)
    assert getattr(with_fields(policy, {field: text}), field) == value


def test_grouped_fields_leave_the_others_of_their_group_alone() -> None:
    policy = replace(POLICY, timeouts=Timeouts(grow_s=7))
    found = with_fields(policy, {"timeouts.action_s": "100", "movement.moves_per_batch": "none"})
    assert found.timeouts == Timeouts(grow_s=7, action_s=100.0)
    assert found.movement.moves_per_batch is None


def test_fields_are_checked_together_not_one_by_one() -> None:
    policy = with_fields(POLICY, {"min_executors": "10", "max_executors": "12"})
    assert (policy.min_executors, policy.max_executors) == (10, 12)
    with pytest.raises(ProblemError, match="min_executors: 10 is above max_executors 8"):
        with_fields(POLICY, {"min_executors": "10"})


@pytest.mark.parametrize(
    ("field", "text", "why"),
    [
        ("max_executors", "many", "max_executors: 'many' is not a whole number"),
        ("max_executors", "9" * 5000, "is not a whole number"),
        ("tau", "x", "tau: 'x' is not a number"),
        ("tau", "nan", "tau: "),
        ("tau", "-1", "tau: "),
        ("advise_only", "maybe", "advise_only: 'maybe' is not true or false"),
        ("colour", "red", "'colour': is not a field of a policy that can be set"),
        ("movement", "x", "movement: is a group of fields; set movement.FIELD"),
        ("movement.colour", "x", "is not a field of a policy that can be set"),
        ("goal.target", "0.5", "is not a field of a policy that can be set"),
        ("planner", "best", "planner: 'best' is not one"),
        ("goal", "schedule", "goal: 'schedule' needs sizes"),
        ("goal", "os:abort", "goal: "),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(field: str, text: str, why: str) -> None:
    with pytest.raises(ProblemError) as error:
        with_fields(POLICY, {field: text})
    assert why in str(error.value)


def test_every_field_of_a_policy_can_be_set() -> None:
    for field in fields(Policy):
        if field.name in ("movement", "timeouts", "goal", "planner", "excluded_periods"):
            continue
        value = getattr(POLICY, field.name)
        text = "none" if value is None else str(value).lower()
        assert with_fields(POLICY, {field.name: text}) == POLICY
    for group in ("movement", "timeouts"):
        for field in fields(getattr(POLICY, group)):
            text = str(getattr(getattr(POLICY, group), field.name)).lower()
            assert with_fields(POLICY, {f"{group}.{field.name}": text}) == POLICY
