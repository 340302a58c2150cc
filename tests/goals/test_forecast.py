from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.goals.forecast import (
    EXPERTS,
    MOST_MORE,
    MOST_WORSE,
    SLOTS_AHEAD,
    Expected,
    Forecaster,
    Profile,
)

LOOK_AHEAD_S = 400.0
SLOT_MS = 100_000
QUARTER_MS = 900_000
DAY_MS = 86_400_000


def fed(loads: Sequence[float], known: Forecaster | None = None, first: int = 0) -> Forecaster:
    """A load for each slot, from slot ``first`` on; the last one is still open."""
    known = known or Forecaster.ahead(LOOK_AHEAD_S, 1.0)
    for slot, load in enumerate(loads, first):
        known = known.with_load(SLOT_MS * (slot + 0.5), load)
    return known


def over_days(days: float, load: Callable[[float], float]) -> Forecaster:
    """A load by the day, heard twice a slot."""
    known = Forecaster.ahead(LOOK_AHEAD_S, 1.0)
    for at_ms in range(0, round(days * DAY_MS), SLOT_MS // 2):
        known = known.with_load(at_ms, load(at_ms / DAY_MS))
    return known


def wave(day: float) -> float:
    return 3 - 2 * math.cos(2 * math.pi * day)


# What experts guess


def guessed(known: Forecaster) -> dict[str, float]:
    return dict(zip(EXPERTS, known.guesses[-1].loads, strict=True))


def test_a_steady_load_is_expected_to_stay() -> None:
    assert set(guessed(fed([2.0] * 10)).values()) == {2.0}


def test_the_trend_goes_on_and_is_damped() -> None:
    guess = guessed(fed([2 + 0.1 * i for i in range(50)]))
    assert 6.8 < guess["trend"] < 6.8 + 0.4
    assert guess["now"] == pytest.approx(6.8)


def test_a_change_that_is_steeper_than_noise_is_taken_for_the_onset_of_a_burst() -> None:
    calm = [2.0, 2.02] * 20
    assert guessed(fed([*calm, 2.5, 0]))["onset"] == pytest.approx(2.5 + 4 * 0.48)
    noisy = [2.0, 2.4] * 20
    assert guessed(fed([*noisy, 2.5, 0]))["onset"] == 2.5


def test_nothing_is_guessed_below_the_load_of_now_or_beyond_the_bound() -> None:
    assert set(guessed(fed([*[4.0] * 20, 2.0, 0])).values()) == {2.0}
    assert guessed(fed([*[1.0] * 20, 10.0, 0]))["onset"] == 10 * (1 + MOST_MORE)


def test_the_time_of_the_day_shows_what_follows() -> None:
    known = over_days(1.25, wave)
    guess = guessed(known)
    ahead = wave(0.25 + LOOK_AHEAD_S / 86_400)
    assert guess["day"] == pytest.approx(ahead, rel=0.1)
    assert guess["week"] == guess["now"]


def test_the_time_of_the_week_shows_what_the_day_does_not() -> None:
    def working_days(day: float) -> float:
        return wave(day) if int(day) % 7 < 5 else 1.0

    known = over_days(12.25, working_days)  # a day of rest
    assert guessed(known)["week"] == pytest.approx(1.0, rel=1e-6)
    assert guessed(known)["day"] > 1.01


def test_a_day_is_one_of_the_wall_clock_after_a_clock_change() -> None:
    berlin = ZoneInfo("Europe/Berlin")

    def peak_at_seven(at_s: float) -> float:
        wall = datetime.fromtimestamp(at_s, berlin)
        return 1 + 5 * math.exp(-(((wall.hour - 7) * 60 + wall.minute) ** 2) / 900)

    first_s = datetime(2026, 3, 20, tzinfo=berlin).timestamp()
    last_s = datetime(2026, 3, 30, 6, 30, tzinfo=berlin).timestamp()  # clocks were set on the 29th
    by_wall_clock = Forecaster.ahead(LOOK_AHEAD_S, 1.0, "Europe/Berlin")
    by_utc = Forecaster.ahead(LOOK_AHEAD_S, 1.0, "UTC")
    for at_s in range(round(first_s), round(last_s), SLOT_MS // 2000):
        by_wall_clock = by_wall_clock.with_load(1000 * at_s, peak_at_seven(at_s))
        by_utc = by_utc.with_load(1000 * at_s, peak_at_seven(at_s))
    ahead = peak_at_seven((by_utc.guesses[-1].slot + 0.5) * SLOT_MS / 1000)
    assert guessed(by_wall_clock)["day"] == pytest.approx(ahead, rel=0.1)
    assert guessed(by_utc)["day"] < 0.9 * ahead, "for it the peak comes an hour later"


# What is usual


def test_what_is_usual_is_not_known_where_nothing_was_heard() -> None:
    assert Profile.empty(1, 0.5).growth(0, 1000) is None


def test_what_is_usual_changes_evenly_from_quarter_to_quarter() -> None:
    known = Profile.empty(1, 0.5)
    for quarter in range(96):
        known = known.learnt(quarter, 1.0 + quarter % 2)
    middle, between, next_middle = (0.5 * QUARTER_MS, QUARTER_MS, 1.5 * QUARTER_MS)
    steps = [known.growth(middle, at_ms) for at_ms in (middle, between, next_middle)]
    assert steps == [1.0, pytest.approx((1.5 + 0.15) / 1.15), pytest.approx(2.15 / 1.15)]


def test_a_period_follows_the_last_one_by_its_weight() -> None:
    known = Profile.empty(1, 0.25).learnt(3, 4.0).learnt(3 + 96, 8.0)
    assert known.usual[3] == 5.0
    assert known.mean == 5.0


def test_a_load_of_nothing_grows_into_nothing() -> None:
    known = Profile.empty(1, 0.5)
    for quarter in range(96):
        known = known.learnt(quarter, 0.0)
    assert known.growth(0, QUARTER_MS) is None


# Which guess is used


def test_before_guesses_were_scored_nothing_is_foreseen() -> None:
    known = fed([1 + 0.1 * i for i in range(15)])
    expected = known.expected(14.5 * SLOT_MS, 2.4)
    assert (expected.load, expected.expert) == (2.4, "now")
    assert expected.error == pytest.approx(0.4)


def test_a_load_that_rises_and_rises_is_foreseen() -> None:
    loads = [1 + 0.1 * i for i in range(60)]
    expected = fed(loads).expected(59.5 * SLOT_MS, loads[-1])
    assert expected.expert in ("trend", "onset")
    assert loads[-1] < expected.load <= loads[-1] + 0.1 * SLOTS_AHEAD
    assert expected.error is not None
    assert expected.error < 0.41


def test_a_day_like_those_before_is_foreseen_with_a_small_error() -> None:
    known = over_days(3.3, wave)
    expected = known.expected(3.3 * DAY_MS, wave(3.3))
    assert expected.expert in ("day", "trend")
    assert expected.load == pytest.approx(wave(3.3 + LOOK_AHEAD_S / 86_400), rel=0.02)
    assert expected.error is not None
    assert expected.error < 0.05
    assert len(pickle.dumps(known)) < 20_000


def test_what_is_expected_is_the_most_of_all_that_is_still_to_come() -> None:
    known = fed([*(1 + 0.1 * i for i in range(60)), 6.0, 5.5])
    peak = known.guesses[1]  # made before the load fell
    assert peak.slot == 62
    assert [guess.grows for guess in known.guesses] == [True, True, True, False]
    assert known.expected(61.5 * SLOT_MS, 5.5).load == max(
        guess.loads[guess.used] for guess in known.guesses
    )
    assert peak.loads[peak.used] > 6.5


def test_a_load_that_falls_is_not_expected_back() -> None:
    known = fed([9 - 0.1 * i for i in range(60)])
    assert known.expected(59.5 * SLOT_MS, 3.1).load == 3.1


def test_no_more_is_expected_than_the_bound_allows_for_the_load_of_now() -> None:
    known = fed([1 + 0.1 * i for i in range(60)])
    expected = known.expected(59.5 * SLOT_MS, 0.5)
    assert expected.load == 0.5 * (1 + MOST_MORE)


def test_guesses_whose_time_has_passed_count_no_more() -> None:
    known = fed([1 + 0.1 * i for i in range(60)])
    assert known.expected(200 * SLOT_MS, 1.0) == Expected(1.0, known.off / known.scored, "now")


def test_a_forecast_that_does_not_pay_is_not_used() -> None:
    spikes = fed([*[2.0] * 9, 5.0] * 40)
    assert spikes.costs[EXPERTS.index("onset")] > spikes.costs[0] > 0
    assert spikes.expected(400 * SLOT_MS, 5.0) == Expected(5.0, spikes.off / spikes.scored, "now")


def test_what_executors_bear_anyway_needs_no_forecast() -> None:
    rising = [1.05**i for i in range(60)]
    assert fed(rising).used != 0
    assert fed(rising, Forecaster.ahead(LOOK_AHEAD_S, 1.25)).used == 0


# What was received


def test_a_slot_has_the_mean_of_what_was_heard_in_it() -> None:
    known = (
        Forecaster.ahead(LOOK_AHEAD_S, 1.0)
        .with_load(0, 1.0)
        .with_load(50_000, 3.0)
        .with_load(SLOT_MS, 9.0)
    )
    assert known.last == 2.0


def test_a_moment_before_the_last_counts_as_the_last() -> None:
    known = fed([1.0, 2.0]).with_load(0, 4.0)
    assert known.slot is not None
    assert (known.slot.number, known.slot.load) == (1, 3.0)


def test_slots_that_a_long_batch_passed_over_have_its_load() -> None:
    known = fed([1.0]).with_load(3.5 * SLOT_MS, 5.0)
    assert [guess.slot for guess in known.guesses] == [4, 5, 6]
    assert known.last == 5.0


def test_after_a_long_silence_the_past_shows_nothing_of_the_slope() -> None:
    known = fed([1 + 0.1 * i for i in range(60)])
    after = known.with_load(1000 * SLOT_MS, 50.0)
    assert (after.guesses, after.level, after.slope) == ((), None, 0.0)
    assert after.scored > 0
    assert after.day.mean > 0


# The bound

loads = st.one_of(
    st.lists(st.floats(0, 100), min_size=30, max_size=150),
    st.lists(st.floats(-1, 1.2), min_size=30, max_size=150).map(
        lambda steps: [math.exp(min(3.0, sum(steps[:i]) / 3)) for i in range(len(steps))]
    ),
    st.tuples(st.integers(2, 30), st.floats(0, 5), st.integers(5, 20)).map(
        lambda form: [1 + form[1] * (i % form[0] == 0) for i in range(form[0] * form[2])]
    ),
)


@given(loads)
@settings(max_examples=100, deadline=None)
def test_used_guesses_cost_no_more_than_the_load_of_now_and_the_bound(loads: list[float]) -> None:
    known, most = Forecaster.ahead(LOOK_AHEAD_S, 1.0), 0.0
    for slot, load in enumerate(loads):
        known, most = known.with_load(SLOT_MS * slot, load), max(most, load)
        bound = known.costs[0] + MOST_WORSE * known.load + SLOTS_AHEAD * MOST_MORE * most
        assert known.cost <= bound * (1 + 1e-9) + 1e-9


@given(loads, st.floats(0, 100))
@settings(max_examples=100, deadline=None)
def test_what_is_expected_is_within_its_bounds(loads: list[float], now: float) -> None:
    known = fed(loads)
    assert now <= known.expected(SLOT_MS * len(loads), now).load <= (1 + MOST_MORE) * now


@given(loads)
@settings(max_examples=20, deadline=None)
def test_the_same_past_shows_the_same(loads: list[float]) -> None:
    known = fed(loads)
    assert known == fed(loads)
    assert all(a.slot < b.slot for a, b in pairwise(known.guesses))
    assert len(known.guesses) <= SLOTS_AHEAD
