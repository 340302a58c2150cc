"""What executors use of memory, and which of them come near to what they may use."""

from __future__ import annotations

from elastream.core.state import LoopState
from elastream.core.store_memory import NEAR, room_next_to_heap
from elastream.model.observation import ExecutorMemory


def store_memory_bytes(state: LoopState) -> dict[str, int]:
    """Return what the state stores on each executor report to use; O(tasks)."""
    held: dict[str, int] = {}
    for task, load in state.observed.tasks():
        executor = state.observed.where(task)
        held[executor] = held.get(executor, 0) + load.store_memory_bytes
    return held


def memory_warnings(state: LoopState) -> tuple[str, ...]:
    """Return which executors come near to their limit, or hold more state than they may."""
    found = []
    stores = store_memory_bytes(state)
    for executor in state.all_executors:
        memory = state.executor_memory.get(executor.id, ExecutorMemory())
        used, limit = memory.process_peak, memory.limit
        if used is not None and limit is not None and used >= NEAR * limit:
            share = f"{used / 1e6:,.0f} MB of the {limit / 1e6:,.0f} MB"
            found.append(f"executor {executor.id} has used {share} that its container may use")
        room, held = room_next_to_heap(memory), stores.get(executor.id, 0)
        if room is not None and held >= NEAR * room:
            share = f"{held / 1e6:,.0f} MB of the {room / 1e6:,.0f} MB"
            found.append(
                f"the state stores of executor {executor.id} use {share} that its container "
                "leaves next to the heap"
            )
    most = state.policy.state_bytes_per_executor
    if most is not None:
        sizes: dict[str, float] = {}
        for task, load in state.observed.tasks():
            place = state.observed.where(task)
            sizes[place] = sizes.get(place, 0.0) + load.state_bytes
        found += [
            f"executor {name} holds {size / 1e6:,.0f} MB of state; {most / 1e6:,.0f} MB are allowed"
            for name, size in sizes.items()
            if size > most and name in state.alive
        ]
    return tuple(found)
