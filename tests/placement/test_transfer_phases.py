from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import step_problems

from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Move
from elastream.placement.transfer.transfer_phases import (
    TaskPart,
    Transfer,
    TransferPhase,
    least_length,
    transfer_phases,
)
from elastream_lab.rivals.even_split import even_split

Volume = tuple[int, int, int | float]


def faults(volumes: Sequence[Volume], phases: Sequence[TransferPhase]) -> list[str]:
    """Check a schedule against the definition, sharing nothing with how it was made."""
    found = []
    wanted: Counter[tuple[int, int]] = Counter()
    out: Counter[int] = Counter()
    into: Counter[int] = Counter()
    for source, target, amount in volumes:
        wanted[source, target] += Fraction(amount)  # type: ignore[assignment]
        out[source] += Fraction(amount)  # type: ignore[assignment]
        into[target] += Fraction(amount)  # type: ignore[assignment]
    for number, phase in enumerate(phases):
        senders = [transfer.source for transfer in phase.transfers]
        receivers = [transfer.target for transfer in phase.transfers]
        if len(set(senders)) < len(senders):
            found.append(f"a node sends twice in phase {number}")
        if len(set(receivers)) < len(receivers):
            found.append(f"a node receives twice in phase {number}")
        for transfer in phase.transfers:
            wanted[transfer.source, transfer.target] -= Fraction(transfer.amount)  # type: ignore[assignment]
            if not 0 < transfer.amount <= phase.length:
                found.append(f"{transfer.amount} goes in phase {number} of {phase.length}")
    found += [f"{left} is left from {pair}" for pair, left in wanted.items() if left]
    total = sum(Fraction(phase.length) for phase in phases)
    bound = max([*out.values(), *into.values()], default=0)
    if total != bound:
        found.append(f"all phases last {total}, the bound is {bound}")
    return found


@st.composite
def volumes(draw: st.DrawFn, amounts: st.SearchStrategy[int | float]) -> list[Volume]:
    nodes = draw(st.integers(2, 7))
    ends = st.tuples(st.integers(0, nodes - 1), st.integers(1, nodes - 1))
    pairs = draw(st.lists(ends, max_size=16))
    return [(source, (source + hop) % nodes, draw(amounts)) for source, hop in pairs]


@given(volumes(st.integers(0, 30)))
@settings(max_examples=300)
def test_all_bytes_go_in_the_least_time_one_sender_and_one_receiver_at_a_time(
    wanted: list[Volume],
) -> None:
    phases = transfer_phases(wanted)
    assert faults(wanted, phases) == []
    assert sum(phase.length for phase in phases) == least_length(wanted)


@given(volumes(st.one_of(st.integers(0, 10**30), st.integers(0, 3))))
@settings(max_examples=200)
def test_sizes_beyond_machine_integers_stay_exact(wanted: list[Volume]) -> None:
    assert faults(wanted, transfer_phases(wanted)) == []


@given(volumes(st.integers(0, 1000).map(lambda eighths: eighths / 8)))
@settings(max_examples=200)
def test_fractions_that_a_float_holds_stay_exact(wanted: list[Volume]) -> None:
    assert faults(wanted, transfer_phases(wanted)) == []


@given(volumes(st.floats(0, 1e12)))
@settings(max_examples=200)
def test_any_floats_go_in_the_least_time_but_for_rounding(wanted: list[Volume]) -> None:
    phases = transfer_phases(wanted)
    assert sum(phase.length for phase in phases) == pytest.approx(least_length(wanted))
    sent: Counter[tuple[int, int]] = Counter()
    for source, target, amount in wanted:
        sent[source, target] -= amount  # type: ignore[assignment]
    for phase in phases:
        for transfer in phase.transfers:
            sent[transfer.source, transfer.target] += transfer.amount  # type: ignore[assignment]
    assert list(sent.values()) == pytest.approx([0] * len(sent), abs=1e-3)


@given(volumes(st.integers(0, 30)))
@settings(max_examples=300)
def test_there_are_no_more_phases_than_pairs_and_ends(wanted: list[Volume]) -> None:
    pairs = {(source, target) for source, target, amount in wanted if amount}
    ends = len({source for source, _ in pairs}) + len({target for _, target in pairs})
    assert len(transfer_phases(wanted)) <= len(pairs) + ends


@given(step_problems(max_tasks=12, max_nodes=5))
@settings(max_examples=300)
def test_the_parts_of_every_task_add_up_to_its_state(problem: StepProblem) -> None:
    moves = even_split(problem).moves
    parts: Counter[tuple[int, int, int]] = Counter()
    for phase in transfer_phases(moves):
        for transfer in phase.transfers:
            assert sum(p.amount for p in transfer.parts) == pytest.approx(transfer.amount)
            for part in transfer.parts:
                parts[part.task, transfer.source, transfer.target] += part.amount  # type: ignore[assignment]
    assert dict(parts) == pytest.approx(
        {(m.task, m.source, m.target): m.state for m in moves if m.state}
    )


def test_whole_bytes_stay_whole() -> None:
    phases = transfer_phases([(0, 1, 3), (0, 2, 5), (1, 2, 4)])
    amounts = [t.amount for phase in phases for t in phase.transfers]
    assert {type(number) for number in [*amounts, *(p.length for p in phases)]} == {int}


def test_a_task_is_split_where_the_least_time_asks_for_it() -> None:
    bytes_between = [[3, 1, 0], [0, 2, 2], [1, 1, 2]]
    moves = [
        Move(3 * source + target, source, 3 + target, size)
        for source, row in enumerate(bytes_between)
        for target, size in enumerate(row)
    ]
    phases = transfer_phases(moves)
    assert faults([(m.source, m.target, m.state) for m in moves], phases) == []
    assert sorted(
        part.amount for p in phases for t in p.transfers for part in t.parts if part.task == 0
    ) == [1, 2]


def test_one_transfer_is_one_phase_and_lists_its_tasks_in_order() -> None:
    phases = transfer_phases([Move(7, 0, 1, 5), Move(3, 0, 1, 2)])
    parts = (TaskPart(3, 2), TaskPart(7, 5))
    assert phases == (TransferPhase(7, (Transfer(0, 1, 7, parts),)),)


def test_an_exchange_goes_both_ways_at_once() -> None:
    assert transfer_phases([(0, 1, 9), (1, 0, 9)]) == (
        TransferPhase(9, (Transfer(0, 1, 9), Transfer(1, 0, 9))),
    )


def test_nothing_to_move_takes_no_phase() -> None:
    assert transfer_phases([]) == transfer_phases([(0, 1, 0)]) == ()
    assert least_length([]) == 0


def test_the_order_of_the_moves_does_not_matter() -> None:
    moves = [Move(j, j % 3, 3 + j % 2, j + 1) for j in range(12)]
    assert transfer_phases(moves) == transfer_phases(moves[::-1])


def test_hundreds_of_nodes_need_few_phases_more_than_the_busiest_node_has_partners() -> None:
    rng = np.random.default_rng(3)
    cells = rng.choice(200 * 200, size=3000, replace=False)
    sizes = (rng.pareto(1.5, size=3000) * 1e6).astype(np.int64) + 1
    wanted: list[Volume] = [
        (int(cell) // 200, int(cell) % 200, int(size))
        for cell, size in zip(cells, sizes, strict=True)
        if cell // 200 != cell % 200
    ]
    partners = Counter(source for source, _, _ in wanted).most_common(1)[0][1]
    phases = transfer_phases(wanted)
    assert faults(wanted, phases) == []
    assert len(phases) < 10 * partners < len(wanted)


@pytest.mark.parametrize(
    ("move", "field"),
    [
        ((1, 1, 5), "moves[1]"),
        ((0, 1, -5), "moves[1].state"),
        ((0, 1, float("nan")), "moves[1].state"),
        ((-1, 1, 5), "moves[1].source"),
        ((0, -1, 5), "moves[1].target"),
    ],
)
def test_a_wrong_move_is_named(move: Volume, field: str) -> None:
    with pytest.raises(ProblemError) as refused:
        transfer_phases([(0, 1, 1), move])
    assert refused.value.field == field
