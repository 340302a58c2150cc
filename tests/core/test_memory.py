"""What executors use of memory: shown, and warned of before it is trouble."""

from __future__ import annotations

from dataclasses import replace

from tests.core.builders import batch
from tests.core.scenes import POLICY, after, attached

from elastream.core.events import BatchObserved, Log, Status
from elastream.core.explaining import explained
from elastream.core.memory import memory_warnings, store_memory_bytes
from elastream.core.scenes import take_scene
from elastream.core.store_memory import StoreMemory
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


def containers(number: int, room: int) -> dict[str, ExecutorMemory]:
    """Containers of executors that have this room next to a heap."""
    memory = ExecutorMemory(heap_limit=700 * MB, limit=700 * MB + room)
    return dict.fromkeys("abcdefgh"[:number], memory)


def test_stores_that_fill_a_container_next_to_its_heap_are_warned_of() -> None:
    state, _ = after(
        attached("ab"),
        BatchObserved(using(1, "aab", 45 * MB)),
        Status(1000, memory=containers(2, 100 * MB)),
    )
    (warning,) = memory_warnings(state)
    assert warning == (
        "the state stores of executor a use 90 MB of the 100 MB that its container leaves next to "
        "the heap"
    )


def test_executors_are_added_for_the_memory_of_state_stores_alone() -> None:
    policy = replace(POLICY, patience=1, min_executors=1, max_executors=8)
    state, instructions = after(
        attached("ab", policy=policy),
        Status(1000, memory=containers(2, 100 * MB)),
        BatchObserved(using(1, "aab", 80 * MB)),
    )
    assert state.observed.bounds.least == 3
    decisions = [each.decision for each in instructions if isinstance(each, Log)]
    (out,) = [each for each in decisions if each.kind == "scale-out"]
    assert "2 executors alive, below what the memory of state stores needs of 3" in out.reason


def test_executors_stay_while_the_stores_would_nearly_fill_those_left() -> None:
    assert StoreMemory(used=185 * MB, room=100 * MB, alive=2).executors == 3
    assert StoreMemory(used=175 * MB, room=100 * MB, alive=3).executors == 3
    assert StoreMemory(used=139 * MB, room=100 * MB, alive=3).executors == 2
    assert StoreMemory(used=175 * MB, room=100 * MB, alive=2).executors == 2, "none is added yet"


def test_the_memory_of_stores_asks_for_nothing_where_a_limit_is_not_known() -> None:
    known = containers(1, 100 * MB)
    state, _ = after(
        attached("ab"), BatchObserved(using(1, "aab", 80 * MB)), Status(1000, memory=known)
    )
    assert state.store_memory is None
    assert state.observed.bounds.least == POLICY.min_executors


def test_more_memory_than_a_container_may_use_at_all_is_not_believed() -> None:
    state, _ = after(
        attached("ab"),
        BatchObserved(using(1, "aab", 500 * MB)),
        Status(1000, memory=containers(2, 100 * MB)),
    )
    assert state.store_memory is None


def test_the_memory_of_stores_never_asks_for_more_than_the_most() -> None:
    policy = replace(POLICY, min_executors=1, max_executors=2)
    state, _ = after(
        attached("ab", policy=policy),
        BatchObserved(using(1, "aab", 300 * MB)),
        Status(1000, memory=containers(2, 100 * MB)),
    )
    assert state.observed.bounds.least == 2
