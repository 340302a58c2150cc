"""Rows are late or in time whatever batches they come in; answers are right on small cases."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from elastream_lab.campaign.answers import ANSWERS, WINDOW_S, watermark_of
from elastream_lab.campaign.drawing import draw
from elastream_lab.campaign.rows import DELAY_S, START_S, Row, closing_file, put, round_files
from elastream_lab.campaign.shapes import SHAPES

T = START_S


@pytest.mark.parametrize("number", range(20))
def test_no_row_is_late_in_any_batch_but_those_that_are_in_every(number: int) -> None:
    scenario = draw(5, number)
    latest = {0: 0, 1: 0}
    for this in range(len(scenario.rounds)):
        for rows in round_files(scenario, this):
            for row in rows:
                assert row.late or row.at > max(latest.values()) - DELAY_S
                assert not row.late or row.at + WINDOW_S < min(latest.values()) - DELAY_S
            for side in latest:
                ats = [row.at for row in rows if row.side == side and not row.late]
                latest[side] = max(latest[side], *ats)
    assert all(row.at > max(latest.values()) + DELAY_S for row in closing_file(scenario))


def test_the_rows_of_a_scenario_are_always_the_same() -> None:
    scenario = draw(5, 1)
    assert round_files(scenario, 0) == round_files(scenario, 0)
    assert round_files(scenario, 0) != round_files(scenario, 1)


def test_files_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (2, 0, 1):
        put(tmp_path, number, [Row(number, 0, 0, T, 0)])
    names = [
        file.name for file in sorted(tmp_path.iterdir(), key=lambda file: file.stat().st_mtime)
    ]
    assert names == ["00000.json", "00001.json", "00002.json"]


def test_there_is_an_answer_for_every_shape() -> None:
    assert ANSWERS.keys() == SHAPES.keys()


ROWS = [
    Row(1, 7, 0, T, 5),
    Row(1, 7, 0, T, 5),
    Row(1, 7, 1, T + 5, 1),
    Row(2, 7, 0, T + 2, 2),
    Row(2, 7, 1, T + 8, 2),
    Row(3, 8, 1, T - 7200, 9),
    Row(-1, -1, 0, T + 100, 0),
    Row(-2, -1, 1, T + 100, 0),
]
"""A row that was sent twice with a partner, one whose partner is too late for it, a late one."""


@pytest.mark.parametrize(
    ("shape", "answer"),
    [
        ("counts", {(7, 5, 15): 1, (8, 1, 9): 1, (-1, 2, 0): 1}),
        ("total", {(8, 24): 1}),
        ("windows", {(T, 7, 5): 1}),
        ("timers", {(T, 7, 5): 1}),
        ("chained windows", {(T, 5, 1): 1}),
        ("sessions", {(7, T, 5): 1}),
        ("first seen", {(1,): 1, (2,): 1, (3,): 1, (-1,): 1, (-2,): 1}),
        ("first seen within the delay", {(1,): 1, (2,): 1, (-1,): 1, (-2,): 1}),
        ("join", {(1, T + 5): 2}),
        ("outer join", {(1, T + 5): 2, (2, None): 1}),
        ("counts in pandas", {(7, 5): 1, (8, 1): 1, (-1, 2): 1}),
    ],
)
def test_an_answer_is_what_one_computes_by_hand(
    shape: str, answer: dict[tuple[int | None, ...], int]
) -> None:
    assert ANSWERS[shape](ROWS) == Counter(answer)


def test_what_the_watermark_has_not_reached_is_not_reported() -> None:
    rows = [Row(1, 0, 0, T, 0), Row(1, 0, 1, T + WINDOW_S + DELAY_S - 1, 0)]
    assert watermark_of(rows) == T + WINDOW_S - 1
    assert ANSWERS["windows"](rows) == Counter()
    reached = [rows[0], Row(1, 0, 1, T + WINDOW_S + DELAY_S, 0)]
    assert ANSWERS["windows"](reached) == Counter({(T, 0, 1): 1})
    assert ANSWERS["timers"](reached) == Counter()
