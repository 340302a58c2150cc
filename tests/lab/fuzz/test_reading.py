"""A slice of ``python -m elastream_lab.fuzz``: no damaged input is a fault of our own."""

from __future__ import annotations

import random

import pytest

from elastream_lab.fuzz.damage import damaged_bytes, damaged_json
from elastream_lab.fuzz.good_inputs import PLANS
from elastream_lab.fuzz.reading import KINDS, read_good, read_one

_LONGEST = "plan resilient"
"""It takes longer than all the others together."""


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] if kind == _LONGEST else [])
        for kind in sorted(KINDS)
    ],
)
def test_damaged_input_ends_in_an_answer_a_reason_or_one_line(kind: str) -> None:
    wrong = [(each, read_one(kind, f"slice/{each}")) for each in range(6)]
    assert [(each, text, why) for each, (text, why) in wrong if why is not None] == []


@pytest.mark.slow
def test_undamaged_input_is_read() -> None:
    read_good()


def test_the_same_seed_does_the_same_damage() -> None:
    problem = PLANS["resilient"][1]
    texts = [damaged_json(problem, random.Random(7)) for _ in range(2)]
    assert texts[0] == texts[1]
    assert damaged_json(problem, random.Random(8)) != texts[0]


def test_damage_leaves_what_it_was_given_as_it_was() -> None:
    problem = PLANS["sequence"][0]
    before = repr(problem)
    for seed in range(50):
        damaged_json(problem, random.Random(seed))
    assert repr(problem) == before
    assert damaged_bytes(b"", random.Random(1)) is not None
