from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.control.observation import TaskId
from elastream.control.replication.sharing import shared
from elastream.control.smoothing import TaskLoad

executors = ("a", "b", "c", "d")


@st.composite
def tasks(draw: st.DrawFn) -> dict[TaskId, TaskLoad]:
    number = draw(st.integers(1, 7))
    return {
        TaskId(2, partition): TaskLoad(
            executor=draw(st.sampled_from(executors)),
            work=draw(st.sampled_from([0.0, 0.1, 0.2, 0.5])),
            rows_per_s=1.0,
            state_bytes=float(draw(st.integers(0, 20))),
            measured=True,
        )
        for partition in range(number)
    }


replicas = st.sets(st.sampled_from(executors), min_size=1).map(lambda names: tuple(sorted(names)))


def moved(before: dict[TaskId, TaskLoad], after: dict[TaskId, str]) -> float:
    return sum(load.state_bytes for task, load in before.items() if after[task] != load.executor)


@settings(max_examples=60)
@given(tasks(), replicas, st.sampled_from(["free-step", "single-step"]))
def test_exactly_the_replicas_hold_the_tasks(
    before: dict[TaskId, TaskLoad], wanted: tuple[str, ...], planner: str
) -> None:
    after = shared(before, wanted, planner=planner, tau=0.25)  # type: ignore[arg-type]
    assert list(after) == list(before)
    if len(wanted) <= len(before):
        assert set(after.values()) == set(wanted)
    else:
        assert set(after.values()) <= set(wanted)


@given(
    st.sampled_from([(1, 4), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2)]),
    st.lists(st.tuples(st.sampled_from(executors), st.integers(0, 20)), min_size=6, max_size=6),
)
@settings(max_examples=60)
def test_of_all_even_spreads_over_the_replicas_one_is_taken_that_moves_the_least_state(
    size: tuple[int, int], held: list[tuple[str, int]]
) -> None:
    replicas, each = size
    wanted = executors[:replicas]
    before = {
        TaskId(0, j): TaskLoad(executor, 1.0, 1.0, float(state), measured=True)
        for j, (executor, state) in enumerate(held[: replicas * each])
    }
    after = shared(before, wanted, planner="free-step", tau=0.0)
    spreads = (
        dict(zip(before, chosen, strict=True))
        for chosen in product(wanted, repeat=len(before))
        if all(chosen.count(name) == each for name in wanted)
    )
    assert moved(before, after) == min(moved(before, spread) for spread in spreads)
