from __future__ import annotations

from collections.abc import Sequence

from elastream_lab.studies.machine import (
    MUCH,
    MachineTimes,
    QuietHost,
    machine_times,
    report,
)

BEGAN = "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n"


def test_a_quiet_machine_is_reported_in_a_line() -> None:
    ended = "cpu  150 0 60 830 60 0 0 0 0 0\ncpu0 1 2 3\n"
    line = report(MachineTimes.of(BEGAN), MachineTimes.of(ended))
    assert line == "The machine was busy for 60% of its time; its host kept 0% from it."


def test_time_that_the_host_kept_is_warned_of() -> None:
    ended = "cpu  110 0 50 830 50 0 0 60 0 0\ncpu0 1 2 3\n"
    line = report(MachineTimes.of(BEGAN), MachineTimes.of(ended))
    assert line == (
        "The machine was busy for 10% of its time; its host kept 60% from it. Times measured "
        "meanwhile say little: run it again."
    )


def test_nothing_is_reported_where_nothing_is_known_or_has_passed() -> None:
    began = MachineTimes.of(BEGAN)
    assert report(None, began) is None
    assert report(began, None) is None
    assert report(began, began) is None


def test_the_times_of_this_machine_only_grow() -> None:
    before, after = machine_times(), machine_times()
    if before is not None and after is not None:
        assert after.all >= before.all > 0


class Host:
    """A host that takes given shares of the time, one per reading; nothing sleeps."""

    def __init__(self, kept: Sequence[float]) -> None:
        self.kept, self.rests = list(kept), 0
        self.said: list[str] = []

    def look(self) -> float:
        return self.kept.pop(0) if self.kept else 1.0

    def rest(self, _seconds: float) -> None:
        self.rests += 1

    def quiet(self, tries: int) -> QuietHost:
        return QuietHost(self.said.append, tries=tries, probe=self.look, sleep=self.rest)


def test_what_was_not_disturbed_is_not_measured_again() -> None:
    host = Host([])
    assert not host.quiet(9).try_again(MUCH, "it")
    assert (host.said, host.rests) == ([], 0)


def test_what_was_disturbed_is_measured_again_once_the_host_is_quiet() -> None:
    host = Host([0.3, 0.2, MUCH, 0.9])
    assert host.quiet(1).try_again(0.25, "point 3")
    assert host.rests == 2
    assert host.kept == [0.9], "no look after the one that found it quiet"
    assert host.said == [
        "point 3 again: the host kept 25% of the time",
        "waiting for the host, which keeps 30%",
    ]


def test_there_are_as_many_tries_as_were_given() -> None:
    host = Host([0.0, 0.0])
    quiet = host.quiet(2)
    assert [quiet.try_again(0.5, "it") for _ in range(3)] == [True, True, False]


def test_a_host_that_stays_busy_is_waited_for_an_hour_in_all() -> None:
    host = Host([])
    quiet = host.quiet(3)
    assert quiet.try_again(0.5, "it")
    assert host.rests == 180
    assert quiet.try_again(0.5, "it")
    assert host.rests == 180, "not waited for again"
