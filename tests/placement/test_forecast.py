from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import step_problems

from elastream.core.routes import RouteOrder, route
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Move, StepPlan, step_plan
from elastream.placement.live_planners import FREE_STEP
from elastream.placement.transfer.forecast import BatchForecast, Forecast, TimedPhase, forecast
from elastream.placement.transfer.transfer_phases import TaskPart, Transfer
from elastream_lab.rivals.even_split import even_split
from elastream_lab.studies.transfer import fair_shares

Rates = Sequence[int | float]


def migration(moves: Sequence[tuple[int, int, int]], nodes: int) -> tuple[StepProblem, StepPlan]:
    """Return a problem and the plan that moves one task for each source, target and size."""
    sources = [source for source, _, _ in moves]
    sizes = [size for _, _, size in moves]
    problem = StepProblem.of([1] * len(moves), sizes, sources, nodes, tau=nodes)
    return problem, step_plan(problem, tuple(target for _, target, _ in moves))


@st.composite
def moves(draw: st.DrawFn, nodes: int, most_bytes: int, most: int) -> list[tuple[int, int, int]]:
    ends = st.tuples(st.integers(0, nodes - 1), st.integers(1, nodes - 1))
    pairs = draw(st.lists(ends, min_size=1, max_size=most))
    sizes = st.integers(0, most_bytes)
    return [(source, (source + hop) % nodes, draw(sizes)) for source, hop in pairs]


def simulated_s(sent: Sequence[BatchForecast], rates: Rates) -> Fraction:
    """Send the transfers byte by byte of time: when the last has arrived, with what arrived.

    Every phase begins when all transfers of the one before have ended; a link that two transfers
    use at once, or that sends before the phase begins, is a fault.
    """
    now = Fraction(0)
    for batch in sent:
        arrived: Counter[int] = Counter()
        for phase in batch.phases:
            out = [transfer.source for transfer in phase.transfers]
            into = [transfer.target for transfer in phase.transfers]
            assert len(set(out)) == len(out)
            assert len(set(into)) == len(into)
            ends = [now]
            for transfer in phase.transfers:
                pace = min(rates[transfer.source], rates[transfer.target])
                ends.append(now + Fraction(transfer.amount) / Fraction(pace))
                for part in transfer.parts:
                    arrived[part.task] += Fraction(part.amount)  # type: ignore[assignment]
            now = max(ends)
        wanted = {move.task: move.state for move in batch.moves if move.state}
        assert {task: float(size) for task, size in arrived.items()} == pytest.approx(wanted)
    return now


def bound_s(batches: Sequence[Sequence[Move]], rates: Rates) -> float:
    """Return the most that any node sends or receives, in seconds, added up over batches."""
    total = 0.0
    for batch in batches:
        out: Counter[int] = Counter()
        into: Counter[int] = Counter()
        for _, source, target, state in batch:
            seconds = state / min(rates[source], rates[target])
            out[source] += seconds  # type: ignore[assignment]
            into[target] += seconds  # type: ignore[assignment]
        total += max([*out.values(), *into.values()], default=0)
    return total


def fairly_shared_s(volumes: Sequence[tuple[int, int, int]], nodes: int) -> float:
    """Return when all has arrived if all is sent at once and links of 1 are shared fairly.

    Max-min fairness: the most crowded link gives each of its transfers the same, and so on.
    """
    left = [(source, nodes + target, float(size)) for source, target, size in volumes if size]
    now = 0.0
    while left:
        paces = [0.0] * len(left)
        free, rest = dict.fromkeys(range(2 * nodes), 1.0), set(range(len(left)))
        while rest:
            users = {
                link: [i for i in rest if link in left[i][:2]]
                for link in {end for i in rest for end in left[i][:2]}
            }
            tight = min(users, key=lambda link: free[link] / len(users[link]))
            share = free[tight] / len(users[tight])
            for i in users[tight]:
                paces[i] = share
                rest.discard(i)
                for link in left[i][:2]:
                    free[link] = max(0.0, free[link] - share)
        step = min(size / pace for (*_, size), pace in zip(left, paces, strict=True))
        now += step
        after = [(s, t, size - step * pace) for (s, t, size), pace in zip(left, paces, strict=True)]
        left = [entry for entry in after if entry[2] > 1e-9]
    return now


def least_slots(volumes: Sequence[tuple[int, int, int]]) -> int:
    """Return the fewest slots of one unit that send all, one in and one out a node: by trying."""

    @cache
    def slots(left: tuple[tuple[int, int, int], ...]) -> int:
        if not left:
            return 0
        return 1 + min(
            slots(tuple((s, t, n - sent) for s, t, n, sent in marked if n > sent))
            for marked in (
                [(*pair, i in chosen) for i, pair in enumerate(left)]
                for size in range(1, len(left) + 1)
                for chosen in combinations(range(len(left)), size)
                if len({left[i][0] for i in chosen}) == len({left[i][1] for i in chosen}) == size
            )
        )

    wanted: Counter[tuple[int, int]] = Counter()
    for source, target, size in volumes:
        wanted[source, target] += size
    return slots(tuple((*pair, size) for pair, size in sorted(wanted.items()) if size))


@given(moves(3, most_bytes=3, most=5))
@settings(max_examples=150)
def test_links_that_are_alike_take_what_trying_all_schedules_takes(
    volumes: list[tuple[int, int, int]],
) -> None:
    found = forecast(*migration(volumes, 3), bytes_per_s=4)
    assert found.seconds == least_slots(volumes) / 4


@given(moves(3, most_bytes=2, most=4), st.lists(st.sampled_from([1, 2]), min_size=3, max_size=3))
@settings(max_examples=150)
def test_unlike_links_take_what_trying_all_schedules_takes(
    volumes: list[tuple[int, int, int]], rates: list[int]
) -> None:
    slow = [(s, t, size * 2 // min(rates[s], rates[t])) for s, t, size in volumes]
    found = forecast(*migration(volumes, 3), bytes_per_s=rates)
    assert found.seconds == least_slots(slow) / 2


@given(
    moves(5, most_bytes=10**9, most=14),
    st.lists(st.floats(1, 1e9) | st.integers(1, 10**9), min_size=5, max_size=5),
    st.none() | st.integers(1, 4),
    st.none() | st.integers(0, 10**9),
)
@settings(max_examples=200)
def test_the_whole_time_is_that_of_sending_it_and_no_more_than_the_busiest_links_take(
    volumes: list[tuple[int, int, int]], rates: list[float], tasks: int | None, size: int | None
) -> None:
    problem, plan = migration(volumes, 5)
    found = forecast(problem, plan, rates, moves_per_batch=tasks, bytes_per_batch=size)
    assert found.seconds == pytest.approx(float(simulated_s(found.batches, rates)))
    assert found.seconds == pytest.approx(bound_s([batch.moves for batch in found.batches], rates))
    assert found.seconds == pytest.approx(
        sum(phase.seconds for batch in found.batches for phase in batch.phases)
    )


@given(moves(4, most_bytes=20, most=8))
@settings(max_examples=150)
def test_sharing_the_links_fairly_is_never_quicker(volumes: list[tuple[int, int, int]]) -> None:
    found = forecast(*migration(volumes, 4), bytes_per_s=1)
    shared_s = fairly_shared_s(volumes, 4)
    assert found.seconds <= shared_s * (1 + 1e-9)
    assert fair_shares.fairly_shared_s(volumes, 1.0) == pytest.approx(shared_s)


def test_sharing_the_links_fairly_can_take_a_sixth_longer() -> None:
    volumes = [(0, 4, 4), (0, 5, 5), (1, 4, 3), (1, 5, 3), (2, 4, 2), (2, 5, 1)]
    assert forecast(*migration(volumes, 6), bytes_per_s=1).seconds == 9
    assert fairly_shared_s(volumes, 6) == pytest.approx(10.5)


@given(step_problems(max_tasks=12, max_nodes=4), st.integers(1, 3), st.none() | st.integers(0, 50))
@settings(max_examples=100)
def test_batches_are_those_of_the_loop(problem: StepProblem, tasks: int, size: int | None) -> None:
    way = route(RouteOrder(problem, FREE_STEP, tasks, size))
    if not isinstance(way.outcome, StepPlan):
        return
    found = forecast(problem, way.outcome, 1, moves_per_batch=tasks, bytes_per_batch=size)
    assert tuple(tuple(m.task for m in batch.moves) for batch in found.batches) == way.steps


@given(step_problems(max_tasks=12, max_nodes=4))
@settings(max_examples=100)
def test_without_limits_all_moves_are_one_batch(problem: StepProblem) -> None:
    plan = even_split(problem)
    batches = forecast(problem, plan, 3.5).batches
    assert [batch.moves for batch in batches] == ([plan.moves] if plan.moves else [])


def test_a_transfer_runs_at_the_pace_of_its_slower_link() -> None:
    problem, plan = migration([(0, 1, 100), (1, 0, 40)], 2)
    assert forecast(problem, plan, [10, 5]) == Forecast(
        (
            BatchForecast(
                plan.moves,
                (
                    TimedPhase(
                        20.0,
                        (
                            Transfer(0, 1, 100, (TaskPart(0, 100),)),
                            Transfer(1, 0, 40, (TaskPart(1, 40),)),
                        ),
                    ),
                ),
            ),
        )
    )


def test_a_move_of_no_state_takes_no_time_but_its_place_in_a_batch() -> None:
    problem, plan = migration([(0, 1, 0), (0, 1, 8)], 2)
    found = forecast(problem, plan, 2, moves_per_batch=1)
    assert sorted(batch.seconds for batch in found.batches) == [0, 4]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (0, "bytes_per_s: 0 is not positive, or below 1e-100"),
        (1e-200, "bytes_per_s: 1e-200 is not positive, or below 1e-100"),
        (float("nan"), "bytes_per_s: nan is not finite, or above 1e100"),
        ("fast", "bytes_per_s: 'fast' is not a list"),
        ([1], "bytes_per_s: has 1 entries where 2 are needed"),
        ([1, 0], r"bytes_per_s\[1\]: 0 is not positive, or below 1e-100"),
    ],
)
def test_a_wrong_bandwidth_is_named(given: Any, complaint: str) -> None:
    with pytest.raises(ProblemError, match=f"^{complaint}"):
        forecast(*migration([(0, 1, 5)], 2), bytes_per_s=given)
