"""Waiting for a query goes on after a failure that a restart heals, and after no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from elastream.launch.restarts import _awaited

LOST = RuntimeError("failed 1 times, most recent failure: ExecutorLostFailure (executor 1 exited)")
OWN = RuntimeError("[DIVIDE_BY_ZERO] Division by zero.")


def waits(*answers: bool | Exception) -> Callable[[float | None], bool | None]:
    left = list(answers)

    def wait(_: float | None) -> bool | None:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return wait


def test_a_wait_goes_on_with_the_next_run() -> None:
    assert _awaited(waits(LOST, LOST, True), None, lambda *_: True) is True


def test_a_failure_of_the_programs_own_is_raised_at_once() -> None:
    with pytest.raises(RuntimeError, match="DIVIDE_BY_ZERO"):
        _awaited(waits(OWN, True), None, lambda *_: True)


def test_a_query_that_is_not_started_again_raises_what_ended_it() -> None:
    with pytest.raises(RuntimeError, match="ExecutorLostFailure"):
        _awaited(waits(LOST), None, lambda *_: False)


def test_a_wait_with_a_timeout_ends_without_an_end_of_the_query() -> None:
    assert _awaited(waits(LOST), 1e-9, lambda *_: True) is False


def test_a_wait_whose_time_is_up_before_the_next_run_ends_without_a_failure() -> None:
    assert _awaited(waits(LOST), 1e-9, lambda *_: None) is False
