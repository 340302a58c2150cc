"""Frames go where they should, when they should, and no faster than links carry them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elastream_lab.hosts.lateness import Lateness, LatenessNotes
from elastream_lab.hosts.switch import Link, Switch

EVERYBODY = b"\xff" * 6


def address(port: int) -> bytes:
    return bytes([2, 0, 0, 0, 0, port])


def frame(source: int, target: int | None, size: int = 14) -> bytes:
    to = EVERYBODY if target is None else address(target)
    return (to + address(source)).ljust(size, b".")


def gone(switch: Switch, now_s: float) -> list[tuple[float, int]]:
    return [(left.due_s, left.port) for left in switch.departures(now_s)]


def test_a_frame_to_no_one_known_goes_to_all_and_then_to_the_one_that_answered() -> None:
    switch = Switch(3)
    switch.accept(0.0, 0, frame(0, 2))
    assert gone(switch, 0.0) == [(0.0, 1), (0.0, 2)]
    switch.accept(1.0, 2, frame(2, 0))
    assert gone(switch, 1.0) == [(1.0, 0)]
    switch.accept(2.0, 0, frame(0, 2))
    switch.accept(2.0, 0, frame(0, None))
    assert gone(switch, 2.0) == [(2.0, 2), (2.0, 1), (2.0, 2)]


def test_what_stands_before_the_addresses_is_skipped() -> None:
    switch = Switch(3, skip=10)
    switch.accept(0.0, 2, b"." * 10 + frame(2, None))
    assert [left.frame[10:] for left in switch.departures(0.0)] == [frame(2, None)] * 2
    switch.accept(0.0, 0, b"." * 10 + frame(0, 2))
    assert gone(switch, 0.0) == [(0.0, 2)]


def test_every_pair_has_a_delay_of_its_own_either_way() -> None:
    switch = Switch(3)
    switch.delay(0, 1, 0.5)
    switch.delay(2, 0, 0.25)
    switch.accept(1.0, 0, frame(0, None))
    assert switch.next_s == 1.25
    assert gone(switch, 1.2) == []
    assert gone(switch, 2.0) == [(1.25, 2), (1.5, 1)]
    switch.accept(3.0, 1, frame(1, 0))
    assert gone(switch, 9.0) == [(3.5, 0)]
    assert switch.next_s is None


def test_a_cut_link_loses_what_is_under_way_and_carries_again_when_it_is_mended() -> None:
    switch = Switch(2)
    switch.delay(0, 1, 1.0)
    switch.accept(0.0, 0, frame(0, 1))
    switch.cut(1)
    switch.accept(0.5, 1, frame(1, 0))
    assert gone(switch, 5.0) == []
    assert switch.dropped == 2
    switch.mend(1)
    switch.accept(6.0, 0, frame(0, 1))
    assert gone(switch, 7.0) == [(7.0, 1)]


def test_what_goes_to_a_narrow_link_waits_there_in_the_order_of_arrival() -> None:
    switch = Switch(3)
    switch.accept(0.0, 2, frame(2, None))
    assert len(gone(switch, 0.0)) == 2
    switch.limit(2, 100.0)
    switch.delay(0, 2, 1.0)
    switch.accept(0.0, 0, frame(0, 2, 100))
    switch.accept(0.5, 1, frame(1, 2, 50))
    assert gone(switch, 0.9) == []
    assert gone(switch, 9.0) == [(1.0, 2), (2.0, 2)]
    switch.accept(9.0, 2, frame(2, 0, 100))
    assert gone(switch, 99.0) == [(10.0, 0)], "what it sends is not held back here"


@given(
    frames=st.lists(st.tuples(st.integers(1, 200_000), st.sampled_from([0.0, 0.01, 0.2, 5.0]))),
    rate=st.sampled_from([1e3, 1e6, 1e7]),
)
def test_a_link_carries_no_more_than_it_can_in_order_and_drops_only_what_has_no_room(
    frames: list[tuple[int, float]], rate: float
) -> None:
    link = Link()
    link.bytes_per_s = rate
    now, last, carried = 0.0, 0.0, 0
    room = max(256 << 10, 0.1 * rate)
    for size, gap in frames:
        now += gap
        waits = max(0.0, last - now) * rate
        through = link.through_s(now, size)
        if through is None:
            assert waits + size > room * (1 - 1e-9)
            continue
        carried += size
        assert waits + size <= room * (1 + 1e-9)
        assert through >= max(last, now) + size / rate * (1 - 1e-9)
        assert carried <= rate * through * (1 + 1e-9)
        last = through


def test_lateness_is_reported_for_what_was_passed_on() -> None:
    notes = LatenessNotes()
    assert notes.report(3) == Lateness(0, 0, 3, None, None, None)
    for late in range(200):
        notes.note(late / 1000, 10)
    assert notes.report(0) == Lateness(200, 2000, 0, 100.0, 198.0, 199.0)
