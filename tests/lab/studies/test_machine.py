from __future__ import annotations

from elastream_lab.studies.machine import MachineTimes, machine_times, told

BEGAN = "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n"


def test_a_quiet_machine_is_told_in_a_line() -> None:
    ended = "cpu  150 0 60 830 60 0 0 0 0 0\ncpu0 1 2 3\n"
    line = told(MachineTimes.of(BEGAN), MachineTimes.of(ended))
    assert line == "The machine was busy for 60% of its time; its host kept 0% from it."


def test_time_that_the_host_kept_is_warned_of() -> None:
    ended = "cpu  110 0 50 830 50 0 0 60 0 0\ncpu0 1 2 3\n"
    line = told(MachineTimes.of(BEGAN), MachineTimes.of(ended))
    assert line == (
        "The machine was busy for 10% of its time; its host kept 60% from it. Times measured "
        "meanwhile say little: run it again."
    )


def test_nothing_is_told_where_nothing_is_known_or_has_passed() -> None:
    began = MachineTimes.of(BEGAN)
    assert told(None, began) is None
    assert told(began, None) is None
    assert told(began, began) is None


def test_the_times_of_this_machine_only_grow() -> None:
    before, after = machine_times(), machine_times()
    if before is not None and after is not None:
        assert after.all >= before.all > 0
