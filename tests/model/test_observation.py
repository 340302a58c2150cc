from __future__ import annotations

import pytest

from elastream.model.observation import Executor


@pytest.mark.parametrize(
    ("cores", "task_cpus", "slots"),
    [(1, 1, 1), (4, 1, 4), (4, 2, 2), (5, 2, 2), (1, 0.5, 2), (1, 0.1, 10), (3, 0.3, 10)],
)
def test_slots_are_the_cores_over_what_a_task_takes(
    cores: int, task_cpus: float, slots: int
) -> None:
    assert Executor("0", "h", 0, True, cores, task_cpus).slots == slots


def test_an_executor_smaller_than_a_task_counts_as_one_slot() -> None:
    assert Executor("0", "h", 0, True, cores=1, task_cpus=2).slots == 1
