"""Compiled where Numba is installed, plain where it is not, and the same either way."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pytest
from tests.both_forms import compare_forms

from elastream.extras import install_command
from elastream.foresight.ssm.single_step import single_step
from elastream.model.migration import StepProblem
from elastream.placement import kernel as kernels
from elastream.placement.even_spread import even_max_load
from elastream.placement.free_step import planner
from elastream.placement.free_step.content_choice import content_choice
from elastream.placement.free_step.content_prices import content_prices
from elastream.placement.free_step.planner import free_step
from elastream.placement.free_step.whole_step import whole_step
from elastream.placement.kernel import kernel
from elastream.placement.matchings import most_pairs, most_valuable

MANY = 1e12
"""Inner steps of a call that takes hours."""


@kernel
def doubled(number: int) -> int:
    return 2 * number


@pytest.fixture
def no_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(doubled, "_compiled", None)
    monkeypatch.setattr(kernels, "_reported", set())


def step_of(tasks: int, nodes: int, after: int, tau: float, seed: int) -> StepProblem:
    """Return a problem in intervals; with an odd seed there is a copy."""
    random = np.random.default_rng(seed)
    work, state = random.integers(10, 100, tasks), random.integers(1, 1000, tasks)
    current = [task * nodes // tasks for task in range(tasks)]
    copies = [(0, nodes - 1)] if seed % 2 else []
    return StepProblem.of(work.tolist(), state.tolist(), current, after, tau, copies)


def test_every_kernel_of_placements_is_the_same_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "_ANNEALING_TRIALS", 5000)
    compared = compare_forms(monkeypatch)
    for tasks, nodes, after, tau, seed in (
        (8, 2, 3, 0.1, 2),
        (10, 3, 4, 0.02, 2),
        (10, 3, 4, 0.05, 3),
        (14, 4, 5, 0.05, 1),
        (12, 3, 4, 0.02, 4),
    ):
        problem = step_of(tasks, nodes, after, tau, seed)
        free_step(problem, effort=0)
        single_step(problem)
        even_max_load(problem.work, after, contiguous=True)
        even_max_load(problem.work, after, contiguous=False)
        step = whole_step(problem)
        prices = content_prices(step, step.home, 10**9, heaviest=tasks, iterations=3)
        content_choice(step, prices, None, effort=0)
    random = np.random.default_rng(1)
    most_valuable(random.integers(0, 5, (6, 8)).astype(float))
    most_pairs(np.arange(0, 13, 2), random.integers(0, 6, 12), 6)
    assert compared.keys() == {
        "_anneal",
        "_assign",
        "_fill",
        "_match",
        "_pile",
        "_worth_at_least",
        "eject",
        "go_home",
        "knapsack",
        "knapsacks",
        "least_moved",
    }


@pytest.mark.usefixtures("no_numba")
def test_without_numba_a_kernel_is_plain() -> None:
    assert doubled.compiled is doubled.plain
    assert doubled.for_operations(MANY)(4) == 8


@pytest.mark.usefixtures("no_numba")
def test_without_numba_one_line_says_what_to_install_where_a_plan_takes_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        doubled.for_operations(kernels._SLOW_OPERATIONS - 1)
        assert caplog.messages == []
        for _ in range(3):
            doubled.for_operations(MANY)
    [line] = caplog.messages
    assert line.endswith(install_command("fast"))


def test_with_numba_nothing_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_reported", set())
    with caplog.at_level(logging.WARNING):
        doubled.for_operations(MANY)
    assert caplog.messages == []


@pytest.mark.usefixtures("no_numba")
def test_a_large_single_step_says_what_to_install_and_a_small_one_does_not(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from elastream.foresight.ssm.interval_gain import least_moved

    monkeypatch.setattr(least_moved, "_compiled", None)
    monkeypatch.setattr(least_moved, "plain", lambda *_: 0)
    with caplog.at_level(logging.WARNING):
        single_step(step_of(1000, 10, 12, 0.5, 0))
        assert caplog.messages == []
        single_step(step_of(20_000, 20, 25, 0.5, 0))
    assert len(caplog.messages) == 1
