"""Which failures of Real-time queries a restart heals."""

from __future__ import annotations

import pytest

from elastream.spark.steer.supervising import is_supervised, wait_s

LOST = (
    "Job aborted due to stage failure: Task 1 in stage 9.0 failed 1 times, most recent failure: "
    "Lost task 1.0 in stage 9.0 (TID 41) (10.0.0.2 executor 1): ExecutorLostFailure (executor 1 "
    "exited caused by one of the running tasks) Reason: Command exited with code 137"
)
FEW = (
    "[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT] The minimum number of free slots required in the "
    "cluster is 6, however, the cluster only has 5 slots free."
)
OWN = "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0."


@pytest.mark.parametrize(
    ("fault", "healed"), [(LOST, True), (FEW, True), (OWN, False), ("", False)]
)
def test_only_a_lost_executor_or_missing_slots_are_healed(fault: str, *, healed: bool) -> None:
    assert is_supervised(fault) is healed


def test_each_start_within_a_while_waits_longer_than_the_one_before() -> None:
    assert [wait_s(number) for number in range(5)] == [0, 1, 2, 4, 8]
