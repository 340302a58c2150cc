"""Executors that report CPU times no longer are noticed."""

from __future__ import annotations

from elastream.spark.internals.realtime import Silence


def test_an_executor_is_silent_once_its_last_report_is_old_and_again_after_as_long() -> None:
    silence = Silence()
    found = [silence.is_silent("1", 1000, now_s) for now_s in (0.0, 10.0, 15.0, 16.0, 30.0)]
    assert found == [False, False, True, False, True]


def test_an_executor_that_reports_anew_is_not_silent() -> None:
    silence = Silence()
    assert not any(silence.is_silent("1", 1000 * second, second) for second in range(40))


def test_executors_are_silent_by_themselves() -> None:
    silence = Silence()
    assert not any(silence.is_silent(each, 1000, 0.0) for each in ("1", "2"))
    assert not silence.is_silent("1", 2000, 20.0)
    assert silence.is_silent("2", 1000, 20.0)
