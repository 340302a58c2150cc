from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from elastream.core.lanes import Inline, Job, ThreadLane

PATIENCE_S = 600.0
"""How long a test waits for a thread that must come before it fails."""
NO_TIME = -1.0
"""A limit that every job has passed as soon as it runs."""


def refuse(why: str) -> None:
    raise AssertionError(why)


def job(
    run: Callable[[], None],
    *,
    what: str = "a call",
    limit_s: float = 1e9,
    refused: Callable[[str], None] = refuse,
) -> Job:
    return Job(what, limit_s, run, refused)


class Hanging:
    """A job that ends when the test says so."""

    def __init__(self) -> None:
        self.begun, self.may_end, self.ended = (threading.Event() for _ in range(3))

    def __call__(self) -> None:
        self.begun.set()
        assert self.may_end.wait(PATIENCE_S)
        self.ended.set()


class Scene:
    """A lane, what it reported about stuck jobs, and what hangs on it."""

    def __init__(self, name: str = "test") -> None:
        self.stuck: list[tuple[str, bool]] = []
        self.came_back = threading.Event()
        self.lane = ThreadLane(name, self._stuck)
        self._hanging: list[Hanging] = []

    def hang(self, what: str) -> Hanging:
        """Let a job hang that has no time."""
        hanging = Hanging()
        self._hanging.append(hanging)
        self.lane.submit(job(hanging, what=what, limit_s=NO_TIME))
        assert hanging.begun.wait(PATIENCE_S)
        return hanging

    def run(self) -> None:
        """Return when a job that is submitted now has run."""
        done = threading.Event()
        self.lane.submit(job(done.set))
        assert done.wait(PATIENCE_S)

    def end(self) -> None:
        self.lane.close()
        for hanging in self._hanging:
            hanging.may_end.set()

    def _stuck(self, what: str, after_s: float, back: bool) -> None:
        assert after_s >= 0
        self.stuck.append((what, back))
        if back:
            self.came_back.set()


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.end()


def test_jobs_run_in_order() -> None:
    lane = ThreadLane("test", lambda *_: None)
    done: list[int] = []
    for number in range(20):
        lane.submit(job(lambda number=number: done.append(number)))  # type: ignore[misc]
    lane.close()
    lane.drain(PATIENCE_S)
    assert done == list(range(20))


def test_a_job_runs_after_the_one_before_it_has_ended(scene: Scene) -> None:
    hanging = Hanging()
    seen: list[bool] = []
    scene.lane.submit(job(hanging))
    scene.lane.submit(job(lambda: seen.append(hanging.ended.is_set())))
    assert hanging.begun.wait(PATIENCE_S)
    assert seen == []
    hanging.may_end.set()
    scene.run()
    assert seen == [True]


def test_jobs_run_in_a_thread_of_the_lane(scene: Scene) -> None:
    names: list[str] = []
    scene.lane.submit(job(lambda: names.append(threading.current_thread().name)))
    scene.run()
    assert names == ["test"]


def test_a_job_past_its_limit_does_not_hold_up_those_behind_it(scene: Scene) -> None:
    scene.hang("the first")
    done: list[str] = []
    for name in ("second", "third"):
        scene.lane.submit(job(lambda name=name: done.append(name)))  # type: ignore[misc]
    scene.lane.look()
    scene.run()
    assert done == ["second", "third"]
    assert scene.stuck == [("the first", False)]


def test_a_job_that_comes_back_after_all_is_reported(scene: Scene) -> None:
    hanging = scene.hang("a call")
    scene.lane.look()
    hanging.may_end.set()
    assert scene.came_back.wait(PATIENCE_S)
    assert scene.stuck == [("a call", False), ("a call", True)]


def test_a_job_is_reported_as_stuck_once(scene: Scene) -> None:
    scene.hang("a call")
    for _ in range(3):
        scene.lane.look()
    assert scene.stuck == [("a call", False)]


def test_a_job_within_its_limit_is_left_alone(scene: Scene) -> None:
    hanging = Hanging()
    scene.lane.submit(job(hanging))
    assert hanging.begun.wait(PATIENCE_S)
    scene.lane.look()
    hanging.may_end.set()
    scene.run()
    assert scene.stuck == []


def test_a_look_at_a_lane_that_does_nothing_sees_nothing(scene: Scene) -> None:
    scene.lane.look()
    scene.run()
    scene.lane.look()
    assert scene.stuck == []


def test_a_lane_with_too_many_stuck_jobs_takes_no_more_until_one_comes_back(scene: Scene) -> None:
    hanging = []
    for number in range(4):
        hanging.append(scene.hang(f"call {number}"))
        scene.lane.look()
    refused: list[str] = []
    scene.lane.submit(job(lambda: refuse("not run"), refused=refused.append))
    assert refused == ["4 calls have not come back"]
    hanging[0].may_end.set()
    assert scene.came_back.wait(PATIENCE_S)
    scene.run()


def test_a_closed_lane_runs_what_waits_and_refuses_what_comes(scene: Scene) -> None:
    hanging, waited = Hanging(), threading.Event()
    scene.lane.submit(job(hanging))
    scene.lane.submit(job(waited.set))
    assert hanging.begun.wait(PATIENCE_S)
    scene.lane.close()
    refused: list[str] = []
    scene.lane.submit(job(lambda: refuse("not run"), refused=refused.append))
    assert refused == ["the loop has ended"]
    hanging.may_end.set()
    scene.lane.drain(PATIENCE_S)
    assert waited.is_set()


def test_draining_does_not_wait_for_a_job_longer_than_it_may(scene: Scene) -> None:
    hanging = scene.hang("a call")
    scene.lane.close()
    scene.lane.drain(0.0)
    assert not hanging.ended.is_set()


def test_a_job_may_drain_its_own_lane(scene: Scene) -> None:
    drained = threading.Event()

    def leave() -> None:
        scene.lane.close()
        scene.lane.drain(PATIENCE_S)
        drained.set()

    scene.lane.submit(job(leave))
    assert drained.wait(PATIENCE_S)


def test_a_lane_that_was_never_used_can_be_closed(scene: Scene) -> None:
    scene.lane.close()
    scene.lane.drain(PATIENCE_S)


def test_a_closed_lane_ends_with_those_that_wait_behind_a_stuck_job() -> None:
    scene = Scene("closing")
    scene.hang("a call")
    waited = threading.Event()
    scene.lane.submit(job(waited.set))
    scene.lane.close()
    scene.lane.look()
    scene.lane.drain(PATIENCE_S)
    alive = [thread for thread in threading.enumerate() if thread.name == "closing"]
    scene.end()
    assert waited.is_set()
    assert len(alive) == 1, "the thread that hangs"


def test_inline_jobs_run_where_they_are_submitted() -> None:
    done: list[str] = []
    lane = Inline()
    lane.submit(job(lambda: done.append(threading.current_thread().name)))
    lane.look()
    lane.close()
    lane.drain(0.0)
    assert done == [threading.current_thread().name]
