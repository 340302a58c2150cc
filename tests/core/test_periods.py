"""Periods in which nothing is changed."""

from datetime import datetime

import pytest

from elastream.core.periods import Period
from elastream.model.errors import ProblemError

MONDAY = datetime(2026, 11, 16)


def included(text: str, day: int, hour: int, minute: int = 0) -> bool:
    at = MONDAY.replace(day=MONDAY.day + day, hour=hour, minute=minute)
    return Period.of("period", text).includes(at)


def test_a_period_begins_with_its_first_minute_and_ends_before_its_last() -> None:
    assert included("08:00-09:30", 3, 8)
    assert included("08:00-09:30", 3, 9, 29)
    assert not included("08:00-09:30", 3, 9, 30)
    assert not included("08:00-09:30", 3, 7, 59)


def test_a_period_that_ends_before_it_begins_ends_on_the_next_day() -> None:
    assert included("Fri 22:00-06:00", 4, 23)
    assert included("Fri 22:00-06:00", 5, 5)
    assert not included("Fri 22:00-06:00", 4, 5)
    assert not included("Fri 22:00-06:00", 5, 23)


def test_days_may_pass_the_end_of_the_week() -> None:
    assert included("Sat-Mon 10:00-11:00", 0, 10)
    assert not included("Sat-Mon 10:00-11:00", 1, 10)


@pytest.mark.parametrize("text", ["", "8-9", "08:00", "Foo 08:00-09:00", "25:00-26:00", 7])
def test_what_is_no_period_is_refused(text: object) -> None:
    with pytest.raises(ProblemError, match=r"period: .* is not a period; give one such as"):
        Period.of("period", text)


def test_an_empty_period_is_refused() -> None:
    with pytest.raises(ProblemError, match="period: '08:00-08:00' is empty"):
        Period.of("period", "08:00-08:00")
