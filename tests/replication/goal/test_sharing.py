from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.replication.goal.placing import share_out

NODES = (0, 1, 2, 3)


@dataclass(frozen=True)
class Tasks:
    """The tasks of one operator, by their numbers."""

    work: list[float]
    state: list[int]
    current: list[int]


@st.composite
def tasks(draw: st.DrawFn) -> Tasks:
    number = draw(st.integers(1, 7))
    each = st.lists(st.sampled_from(NODES), min_size=number, max_size=number)
    works = st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5]), min_size=number, max_size=number)
    sizes = st.lists(st.integers(0, 20), min_size=number, max_size=number)
    return Tasks(draw(works), draw(sizes), draw(each))


replicas = st.sets(st.sampled_from(NODES), min_size=1).map(lambda nodes: tuple(sorted(nodes)))


def moved(before: Tasks, after: list[int]) -> int:
    return sum(
        size
        for size, one, other in zip(before.state, before.current, after, strict=True)
        if one != other
    )


@given(tasks(), replicas)
@settings(max_examples=80)
def test_exactly_the_replicas_hold_the_tasks(before: Tasks, wanted: tuple[int, ...]) -> None:
    after = share_out(before.work, before.state, before.current, dict.fromkeys(wanted, 1), tau=0.25)
    assert len(after) == len(before.work)
    if len(wanted) <= len(after):
        assert set(after) == set(wanted)
    else:
        assert set(after) <= set(wanted)


@given(
    st.sampled_from([(1, 4), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2)]),
    st.lists(st.tuples(st.sampled_from(NODES), st.integers(0, 20)), min_size=6, max_size=6),
)
@settings(max_examples=80)
def test_of_all_even_spreads_over_the_replicas_one_is_taken_that_moves_the_least_state(
    size: tuple[int, int], held: list[tuple[int, int]]
) -> None:
    number, each = size
    wanted, kept = NODES[:number], held[: number * each]
    before = Tasks([1.0] * len(kept), [state for _, state in kept], [node for node, _ in kept])
    after = share_out(before.work, before.state, before.current, dict.fromkeys(wanted, 1), tau=0.0)
    spreads = (
        list(chosen)
        for chosen in product(wanted, repeat=len(kept))
        if all(chosen.count(node) == each for node in wanted)
    )
    assert moved(before, after) == min(moved(before, spread) for spread in spreads)


def test_tasks_without_work_count_alike() -> None:
    after = share_out([0.0] * 4, [1] * 4, [0] * 4, {0: 1, 1: 1}, tau=0.0)
    assert sorted(after) == [0, 0, 1, 1]
