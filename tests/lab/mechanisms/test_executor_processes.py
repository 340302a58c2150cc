from __future__ import annotations

import pytest

from elastream.model.errors import SparkError
from elastream_lab.mechanisms.executor_processes import Process, process_of

ADDRESS = "127.0.0.1:4040"


def executor(
    number: str, *, app: str = "app-1", address: str = ADDRESS, parent: int = 1
) -> Process:
    backend = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    url = f"spark://CoarseGrainedScheduler@{address}"
    report = ("--driver-url", url, "--executor-id", number, "--hostname", "x", "--app-id", app)
    return Process(parent, ("java", backend, *report, ""))


def found(processes: dict[int, Process], number: str = "1") -> int:
    return process_of(processes, number, "app-1", ADDRESS)


def test_an_executor_is_known_by_its_whole_command_line() -> None:
    others = {
        2: executor("11"),
        3: executor("1", app="app-2"),
        4: executor("1", address="127.0.0.1:14040"),
        5: Process(1, ("grep", "--executor-id", "1", "--app-id", "app-1", f"@{ADDRESS}")),
        6: Process(1, ()),
        7: Process(1, ("java", "--app-id")),
    }
    assert found({**others, 8: executor("1")}) == 8
    with pytest.raises(SparkError, match="executor 1 has 0 processes on this machine"):
        found(others)


def test_a_process_that_it_is_about_to_start_is_not_taken_for_it() -> None:
    assert found({8: executor("1"), 9: executor("1", parent=8)}) == 8


def test_no_one_is_chosen_of_two() -> None:
    with pytest.raises(SparkError, match="has 2 processes"):
        found({8: executor("1"), 9: executor("1")})
