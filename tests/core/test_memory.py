"""What executors use of memory: shown, and warned of before it is trouble."""

from __future__ import annotations

from dataclasses import replace

from tests.core.builders import batch
from tests.core.scenes import POLICY, after, attached

from elastream.core.events import BatchObserved, Status
from elastream.core.explaining import explained
from elastream.core.memory import memory_warnings, store_memory_bytes
from elastream.core.scenes import take_scene
from elastream.model.observation import BatchObservation, ExecutorMemory

MB = 1_000_000


def using(number: int, where: str, store_memory_bytes: int) -> BatchObservation:
    seen = batch(number, where, state_bytes=6 * MB)
    tasks = tuple(replace(task, store_memory_bytes=store_memory_bytes) for task in seen.tasks)
    return replace(seen, tasks=tasks)


def test_the_memory_of_stores_is_that_of_the_last_batch_on_each_executor() -> None:
    state, _ = after(
        attached("ab"), *(BatchObserved(using(number, "aab", 5 + number)) for number in range(3))
    )
    assert store_memory_bytes(state) == {"a": 14, "b": 7}
    executors = take_scene(state).executors
    assert {name: each.store_memory_bytes for name, each in executors.items()} == {"a": 14, "b": 7}


def test_what_a_status_reports_of_executors_is_shown() -> None:
    memory = {"a": ExecutorMemory(300, 700, 900, None)}
    state, _ = after(attached("ab"), Status(1000, memory=memory))
    scene = take_scene(state)
    assert scene.executors["a"].memory == memory["a"]
    assert scene.executors["b"].memory == ExecutorMemory()
    assert scene.loop.warnings == ()


def test_a_process_near_the_limit_of_its_container_is_warned_of() -> None:
    memory = {
        "a": ExecutorMemory(process_peak=899 * MB, limit=1000 * MB),
        "b": ExecutorMemory(process_peak=900 * MB, limit=1000 * MB),
    }
    state, _ = after(attached("ab"), Status(1000, memory=memory))
    (warning,) = memory_warnings(state)
    assert warning == "executor b has used 900 MB of the 1,000 MB that its container may use"
    assert f"Warning: {warning}." in explained(state)
    assert take_scene(state).loop.warnings == (warning,)


def test_more_state_than_an_executor_may_hold_is_warned_of() -> None:
    policy = replace(POLICY, state_bytes_per_executor=10 * MB)
    state, _ = after(
        attached("ab", policy=policy), *(BatchObserved(using(n, "aab", 1)) for n in range(2))
    )
    assert memory_warnings(state) == ("executor a holds 12 MB of state; 10 MB are allowed",)
