"""Scenes: what is visible of a state, line by line, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.interleaving import Interrupted, SecondThread, WatchedLock

from elastream import ByHand, Movement, Policy, Utilisation
from elastream.core.decision_log import DecisionLog, LogEntry, entry_of, read_log
from elastream.core.decisions import Decision
from elastream.core.goal import Marks
from elastream.core.samples import Sample
from elastream.core.scene_lines import SceneEncoder, checked_scene, laid_over, whole_record
from elastream.core.scenes import (
    Scene,
    SceneBatch,
    SceneChange,
    SceneExecutor,
    SceneLoop,
    SceneQuery,
    SceneTask,
    take_scene,
)
from elastream.jsonl import lines_of
from elastream.model.errors import ProblemError
from elastream.model.observation import TaskId
from elastream.testing import (
    ClusterSettings,
    SimulatedCluster,
    SimulatedLoop,
    even_workload,
    rate_steps,
    simulated,
)

RISING = rate_steps({0: 1000, 30: 2500})


@contextmanager
def looked_at(
    policy: Policy | None = None, **settings: Any
) -> Iterator[tuple[SimulatedCluster, SimulatedLoop, list[Scene]]]:
    """A simulated loop, and the scenes of it so far."""
    cluster = SimulatedCluster(
        [even_workload(24, RISING, name="busy"), even_workload(6, 50, name="calm")],
        ClusterSettings(**settings),
    )
    scenes: list[Scene] = []

    def keep(entry: LogEntry) -> None:
        if isinstance(entry, Scene):
            scenes.append(entry)

    loop = simulated(cluster, policy or Policy(max_executors=8))
    loop.add_log(keep)
    with loop:
        yield cluster, loop, scenes


def test_a_scene_shows_the_loop_the_executors_the_queries_and_every_task() -> None:
    with looked_at() as (cluster, loop, scenes):
        cluster.advance(20)
        cluster.run_batch()  # of the busy query; that of the calm one waits for its slots
        scene, state = scenes[-1], loop.state
    assert scene.loop.mode == "acts"
    assert scene.loop.phase == "steady"
    assert scene.loop.marks == Utilisation().marks
    assert (scene.loop.least, scene.loop.most) == (1, 8)
    assert scene.loop.executor_s == pytest.approx(2 * 20, abs=2)
    assert list(scene.executors) == [each.id for each in state.all_executors]
    busy = [each.busy for each in scene.executors.values()]
    assert all(share is not None and 0.4 < share < 0.7 for share in busy)
    assert scene.queries.keys() == {"busy", "calm"}
    assert scene.tasks == take_scene(state).tasks
    assert sum(len(query.load.tasks) for query in state.queries.values()) == len(scene.tasks) == 30
    assert scene.loop.unknown == ()
    assert scene.change is None


def test_what_is_not_known_is_said() -> None:
    with looked_at() as (cluster, _, scenes):
        cluster.advance(0.5)
        first = scenes[-1]
        assert first.loop.unknown == (
            "no batch of busy has been seen yet",
            "no batch of calm has been seen yet",
        )
        assert all(each.busy is None for each in first.executors.values())
        cluster.advance(10)
    assert scenes[-1].loop.unknown == ()


def test_every_batch_is_in_exactly_one_scene() -> None:
    with looked_at() as (cluster, loop, scenes):
        cluster.advance(120)
        seen = [(batch.query, batch.batch) for scene in scenes for batch in scene.batches]
        last = {query.name: query.load.batch for query in loop.state.queries.values()}
    assert len(seen) == len(set(seen))
    for name, batch in last.items():
        numbers = [number for query, number in seen if query == name]
        assert numbers == sorted(numbers)
        assert batch is not None
        assert batch - numbers[-1] <= 2


def test_a_change_is_seen_in_its_phases_with_where_tasks_are_heading() -> None:
    with looked_at(pool_s=3.0, copy_s=2.0) as (cluster, loop, scenes):
        loop.run_until("done")
        cluster.advance(1)
    phases = [scene.change.phase for scene in scenes if scene.change is not None]
    assert list(dict.fromkeys(phases)) == [
        "growing",
        "warming",
        "settling",
        "planning",
        "moving",
    ]
    heading = {t: each for scene in scenes for t, each in scene.tasks.items() if each.heading}
    after = scenes[-1]
    assert heading
    assert all(after.tasks[task].executor == each.heading for task, each in heading.items())
    moved = [scene.change for scene in scenes if scene.change is not None][-1]
    assert moved.kind == "scale-out"
    assert after.change is None
    assert after.loop.cooldown_until_ms is not None
    assert after.loop.cooldown_until_ms > after.at_ms


def test_what_is_left_of_a_change_is_known_once_one_of_its_kind_has_ended() -> None:
    policy = Policy(max_executors=8, goal=ByHand(), movement=Movement(copy_ahead=False))
    with looked_at(policy, pool_s=5.0) as (cluster, loop, scenes):
        cluster.advance(5)
        for executors in (3, 4):
            loop.scale_to(executors)
            loop.run_until("done")
            cluster.advance(2)
    changes = [scene.change for scene in scenes if scene.change is not None]
    first = [change for change in changes if change.executors == 3]
    second = [change for change in changes if change.executors == 4]
    assert all(change.left_s is None for change in first)
    left = [change.left_s for change in second if change.left_s is not None]
    assert len(left) == len(second)
    assert left[0] == pytest.approx(10, abs=3)
    assert left == sorted(left, reverse=True)


def test_copies_that_follow_are_seen() -> None:
    policy = Policy(max_executors=3, standbys=1, movement=Movement(standby_bytes=1 << 40))
    with looked_at(policy, copy_s=1.0) as (cluster, loop, scenes):
        loop.run_until("standby")
        cluster.advance(2)
        wanted, scene = loop.state.standbys.wanted, scenes[-1]
    seen = {task: each.standby for task, each in scene.tasks.items() if each.standby}
    assert seen == dict(wanted)
    assert all(scene.tasks[task].executor != node for task, node in seen.items())


def test_the_last_scene_says_that_it_has_let_go() -> None:
    with looked_at() as (cluster, _, scenes):
        cluster.advance(5)
    assert scenes[-1].loop.mode == "let go"


def test_the_lines_of_a_log_lead_to_the_last_scene(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    log = DecisionLog(path)
    with looked_at(pool_s=2.0, copy_s=1.0) as (cluster, loop, scenes):
        loop.add_log(log.append)
        cluster.advance(100)
        assert loop.changes
    entries = [entry_of(where, line) for where, line in lines_of(path)]
    seen: dict[str, Any] = {}
    for entry in entries:
        if isinstance(entry, dict):
            seen = laid_over(seen, entry)
    expected = whole_record(scenes[-1])
    assert_close(seen, expected)
    whole = [entry for entry in entries if isinstance(entry, dict) and entry.get("whole")]
    assert whole[0] is next(entry for entry in entries if isinstance(entry, dict))
    assert all(isinstance(entry, Decision | Sample) for entry in read_log(path))


def test_two_threads_that_write_scenes_write_one_after_the_other(tmp_path: Path) -> None:
    with looked_at() as (cluster, _, scenes):
        cluster.advance(100)
    first, second = scenes[-1], replace(scenes[20], at_ms=scenes[-1].at_ms + 1)
    path, lock = tmp_path / "decisions.jsonl", WatchedLock()
    log = DecisionLog(path)
    log._lock = lock  # type: ignore[assignment]
    other = SecondThread(lock, lambda: log.append(second))
    log.append(scenes[0])
    log.append(replace(first, tasks=Interrupted(first.tasks, other)))
    other.join()
    log.append(replace(second, at_ms=second.at_ms + 1))
    entries = [entry_of(where, line) for where, line in lines_of(path)]
    seen: dict[str, Any] = {}
    reports = []
    for entry in entries:
        assert isinstance(entry, dict)
        seen = laid_over(seen, entry)
        reports.append(seen)
    for has, expected in zip(reports[:3], (scenes[0], first, second), strict=True):
        assert_close(has, whole_record(expected))


def test_a_log_grows_by_less_than_two_kilobytes_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    log = DecisionLog(path)
    with looked_at() as (cluster, loop, scenes):
        loop.add_log(log.append)
        cluster.advance(300)
    batches = sum(len(scene.batches) for scene in scenes)
    assert path.stat().st_size < 2000 * batches


def test_a_new_file_begins_with_a_whole_scene(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    log = DecisionLog(path, max_bytes=40_000)
    with looked_at() as (cluster, loop, _):
        loop.add_log(log.append)
        cluster.advance(200)
    assert (tmp_path / "decisions.jsonl.1").exists()
    records = map(json.loads, path.read_text().splitlines())
    first = next(record for record in records if record["kind"] == "scene")
    assert first["whole"]


def assert_close(seen: dict[str, Any], expected: dict[str, Any]) -> None:
    """Places, phases and names are the same; loads and sizes are as close as lines tell them."""
    assert seen["loop"] == expected["loop"]
    assert seen["change"] == expected["change"]
    assert seen["queries"] == expected["queries"]
    assert seen["executors"].keys() == expected["executors"].keys()
    for name, each in expected["executors"].items():
        reports = seen["executors"][name]
        assert {**reports, "busy": None} == {**each, "busy": None}
        assert reports["busy"] == pytest.approx(each["busy"], abs=0.0205)
    assert seen["tasks"].keys() == expected["tasks"].keys()
    for name, each in expected["tasks"].items():
        reports = seen["tasks"][name]
        assert [reports[0], *reports[3:]] == [each[0], *each[3:]]
        assert reports[1] == pytest.approx(each[1], abs=0.011, rel=0.2)
        assert reports[2] == pytest.approx(each[2], abs=300, rel=0.06)


NAMES = st.sampled_from(["a", "b", 'c"', "ü/\n", "<i>"])
FLOATS = st.floats(0, 10, allow_nan=False)
TASKS = st.dictionaries(
    st.builds(TaskId, NAMES, st.integers(0, 1), st.integers(0, 3)),
    st.builds(
        SceneTask, NAMES, FLOATS, st.integers(0, 1 << 30), st.none() | NAMES, st.none() | NAMES
    ),
    max_size=8,
)
LOOPS = st.builds(
    SceneLoop,
    mode=st.sampled_from(["acts", "advises", "let go"]),
    phase=st.sampled_from(["steady", "moving"]),
    goal=st.just("utilisation 0.7"),
    planner=st.just("free-step"),
    least=st.just(1),
    most=st.integers(1, 9),
    tau=st.just(0.2),
    marks=st.none() | st.builds(Marks, FLOATS, FLOATS, FLOATS),
    utilisation=st.none() | FLOATS,
    cooldown_until_ms=st.none() | st.integers(0, 100),
    attached_ms=st.none() | st.integers(0, 100),
    executor_s=FLOATS,
    spare_executor_s=FLOATS,
    unknown=st.lists(NAMES, max_size=2).map(tuple),
)
CHANGES = st.builds(
    SceneChange,
    kind=st.just("scale-out"),
    before=st.integers(0, 3),
    executors=st.integers(0, 3),
    reason=NAMES,
    asked_ms=st.none() | st.integers(0, 9),
    phase=st.just("moving"),
    tasks_moved=st.integers(0, 9),
    state_bytes_moved=st.integers(0, 9),
    tasks_ahead=st.integers(0, 9),
    state_bytes_ahead=st.integers(0, 9),
    replans=st.integers(0, 3),
    left_s=st.none() | FLOATS,
    usual_ms=st.dictionaries(NAMES, FLOATS, max_size=2),
)
SCENES = st.builds(
    Scene,
    at_ms=st.integers(0, 1 << 40),
    loop=LOOPS,
    executors=st.dictionaries(
        NAMES,
        st.builds(
            SceneExecutor,
            NAMES,
            st.integers(1, 4),
            st.integers(1, 8),
            st.booleans(),
            st.booleans(),
            st.none() | FLOATS,
        ),
        max_size=4,
    ),
    queries=st.dictionaries(
        NAMES,
        st.builds(
            SceneQuery,
            st.integers(0, 9),
            st.none() | FLOATS,
            st.booleans(),
            st.none() | st.integers(0, 9),
            st.none() | FLOATS,
            st.none() | FLOATS,
            st.none() | FLOATS,
            st.none() | st.integers(0, 9),
            st.integers(0, 9),
        ),
        max_size=3,
    ),
    tasks=TASKS,
    change=st.none() | CHANGES,
    batches=st.lists(
        st.builds(
            SceneBatch, NAMES, st.integers(0, 9), st.integers(0, 9), FLOATS, st.integers(0, 9)
        ),
        max_size=2,
    ).map(tuple),
)


@settings(max_examples=150)
@given(st.lists(SCENES, min_size=1, max_size=8))
def test_lines_laid_over_each_other_are_the_scene_whatever_it_is(scenes: list[Scene]) -> None:
    encoder = SceneEncoder()
    seen: dict[str, Any] = {}
    for scene in scenes:
        record, line = encoder.encode(scene)
        assert "\n" not in line
        checked = checked_scene(json.loads(line))
        assert checked == record
        seen = laid_over(seen, checked)
        assert_close(seen, whole_record(scene))
        reports = [[b.query, b.batch, b.at_ms, round(b.ms), b.rows] for b in scene.batches]
        assert record.get("batches", []) == reports


@pytest.mark.parametrize(
    ("member", "value", "says"),
    [
        ("at_ms", -1, "at_ms"),
        ("loop", [], "loop"),
        ("executors", {"a": 3}, "executors.a"),
        ("queries", 3, "queries"),
        ("tasks", {"q/0/0": "a"}, "tasks.q/0/0"),
        ("change", 3, "change"),
        ("batches", [["q", "x"]], "batches"),
    ],
)
def test_a_line_that_shows_no_scene_is_refused(member: str, value: object, says: str) -> None:
    with looked_at() as (cluster, _, scenes):
        cluster.advance(5)
    record = {**whole_record(scenes[-1]), member: value}
    with pytest.raises(ProblemError, match=says):
        checked_scene(record)


def test_a_writer_that_begins_anew_writes_all() -> None:
    with looked_at() as (cluster, _, scenes):
        cluster.advance(10)
    encoder = SceneEncoder()
    assert encoder.encode(scenes[-2])[0]["whole"]
    assert "whole" not in encoder.encode(scenes[-1])[0]
    encoder.start_over()
    assert encoder.encode(replace(scenes[-1], batches=()))[0] == whole_record(
        replace(scenes[-1], batches=())
    )
