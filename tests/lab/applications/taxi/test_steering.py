"""What is known of a run's replicas, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from elastream.model.observation import TaskId
from elastream_lab.applications.taxi.run import _Steering


def steered(where: dict[TaskId, str] | None) -> _Steering:
    """Return the steering of a run whose tasks were last seen there."""
    nothing: Any = None
    steering = _Steering(nothing, nothing, nothing, None, log=None)
    attachment: Any = None if where is None else SimpleNamespace(where=lambda: where)
    steering._attachment = attachment
    return steering


def test_replicas_are_the_executors_that_hold_a_share_of_an_operator() -> None:
    where = {TaskId("q", 0, 0): "2", TaskId("q", 0, 1): "1", TaskId("q", 1, 0): "1"}
    assert steered(where).replicas() == {0: ("1", "2"), 1: ("1",)}
    assert steered(None).replicas() is None


def test_a_query_that_was_just_started_again_is_not_one_without_replicas() -> None:
    assert steered({}).replicas() is None
