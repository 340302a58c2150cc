from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.handover.model import Window
from elastream.handover.relief import (
    ApplicationLoad,
    Marks,
    QueryLoad,
    Relief,
    foreseen_work,
    relief,
)
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
from elastream_lab.studies.handover.break_even import break_even_length_s

MARKS = Marks(bytes_per_s=50e6, restart_s=8)


def sums(length_ms: int, work: float = 1, state: float = 500e6) -> QueryLoad:
    return QueryLoad("sums", work, state, 1000, Window.of("time", length_ms, 2000))


def two(query: QueryLoad, *more: QueryLoad, work: float = 4) -> list[ApplicationLoad]:
    return [ApplicationLoad("a", 4, work, (query, *more)), ApplicationLoad("b", 4, 0.5)]


def test_nothing_is_done_while_no_one_has_too_much() -> None:
    assert relief(two(sums(10_000), work=3.5), MARKS) is None


@pytest.mark.parametrize(("length_ms", "how"), [(18_900, "hand over"), (19_100, "migrate")])
def test_the_break_even_of_the_paper_decides_between_the_two(length_ms: int, how: str) -> None:
    """The docs' example: 500 MB at 50 MB a second, a restart of 8 s, a slide of 2 s: 19 s."""
    assert break_even_length_s(
        slide_s=2, bytes_per_s=50e6, restart_s=8, state_bytes=500e6
    ) == pytest.approx(19)
    found = relief(two(sums(length_ms)), MARKS)
    assert isinstance(found, Relief)
    assert (found.how, found.query, found.origin, found.target) == (how, "sums", "a", "b")
    assert found.suffices
    assert found.reason.startswith(f"{how} 'sums' from 'a' to 'b': a handover takes ")


def test_row_windows_take_as_long_as_their_rows_take_to_come() -> None:
    rows = QueryLoad("rows", 1, 500e6, 100, Window.of("rows", 500, 100))
    found = relief(two(rows), MARKS)
    assert isinstance(found, Relief)
    assert found.handover_s == 4.5
    silent = QueryLoad("rows", 1, 0, 0, Window.of("rows", 500, 100))
    found = relief(two(silent), MARKS)
    assert isinstance(found, Relief)
    assert (found.handover_s, found.how) == (None, "migrate")


def test_a_query_without_a_window_can_only_be_migrated() -> None:
    found = relief(two(QueryLoad("total", 1, 1e6, 10)), MARKS)
    assert isinstance(found, Relief)
    assert found.how == "migrate"
    assert "it has no window to be handed over at" in found.reason


def test_of_those_that_suffice_the_one_that_is_gone_soonest_leaves() -> None:
    long, short = sums(60_000, work=1.5), QueryLoad("short", 1, 500e6, 10, Window.of("time", 9, 3))
    light = QueryLoad("light", 0.1, 0, 10, Window.of("time", 3, 3))
    found = relief(two(long, short, light), MARKS)
    assert isinstance(found, Relief)
    assert found.query == "short"


def test_where_none_suffices_the_heaviest_that_fits_leaves_and_that_is_said() -> None:
    loads = [
        ApplicationLoad("a", 4, 8, (sums(1000, work=1), QueryLoad("big", 3, 0, 1))),
        ApplicationLoad("b", 4, 1),
    ]
    found = relief(loads, MARKS)
    assert isinstance(found, Relief)
    assert found.query == "sums"
    assert found.reason.endswith("that alone is not enough")


def test_no_room_anywhere_is_reported() -> None:
    loads = [ApplicationLoad("a", 4, 4, (sums(1000),)), ApplicationLoad("b", 4, 2.5)]
    found = relief(loads, MARKS)
    assert isinstance(found, Infeasible)
    assert "4.00 of 4 cores are busy in 'a', and no query of it fits" in found.reason


@given(
    st.lists(
        st.tuples(st.floats(0.5, 8), st.lists(st.floats(0.01, 4), max_size=4)),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=min(300, settings().max_examples))
def test_no_one_gets_too_much_by_relieving_another(given: list[tuple[float, list[float]]]) -> None:
    loads = [
        ApplicationLoad(
            str(i),
            cores,
            sum(works),
            tuple(QueryLoad(f"q{j}", w, 1, 1) for j, w in enumerate(works)),
        )
        for i, (cores, works) in enumerate(given)
    ]
    found = relief(loads, MARKS)
    overloaded = any(each.work > MARKS.high * each.cores for each in loads)
    assert (found is None) == (not overloaded)
    if isinstance(found, Relief):
        origin, target = (
            next(each for each in loads if each.name == name)
            for name in (found.origin, found.target)
        )
        work = next(each.work for each in origin.queries if each.name == found.query)
        assert target.work + work <= MARKS.target * target.cores
        assert found.suffices == (origin.work - work <= MARKS.high * origin.cores)


def away(work: float, home_work: float, home: str | None = "a") -> list[ApplicationLoad]:
    guest = QueryLoad("sums", work, 0, 1000, Window.of("time", 1000, 1000), home)
    return [ApplicationLoad("a", 4, home_work), ApplicationLoad("b", 4, work, (guest,))]


def test_a_query_goes_home_when_its_home_has_room_again() -> None:
    found = relief(away(1, home_work=1), MARKS)
    assert isinstance(found, Relief)
    assert (found.query, found.origin, found.target, found.back) == ("sums", "b", "a", True)
    assert found.reason.startswith("hand over 'sums' from 'b' back to 'a': ")
    assert relief(away(1, home_work=1.01), MARKS) is None
    assert relief(away(1, home_work=1, home="b"), MARKS) is None
    assert relief(away(1, home_work=1, home=None), MARKS) is None
    assert relief(away(1, home_work=1, home="gone"), MARKS) is None


def test_of_those_that_could_go_home_the_heaviest_does() -> None:
    home, other = away(0.5, home_work=0)
    more = QueryLoad("more", 1.5, 0, 1, home="a")
    found = relief([home, replace(other, queries=(*other.queries, more))], MARKS)
    assert isinstance(found, Relief)
    assert (found.query, found.how) == ("more", "migrate")


@given(first=st.floats(0, 4), second=st.floats(0, 4), work=st.floats(0.01, 4), there=st.booleans())
@settings(max_examples=min(300, settings().max_examples))
def test_a_query_does_not_swing(first: float, second: float, work: float, there: bool) -> None:
    """Where the load stays as it is, no query leaves again for where it came from."""
    query = QueryLoad("sums", work, 0, 1000, Window.of("time", 1000, 1000), "a")
    own = {"a": first, "b": second}
    at = "b" if there else "a"
    moved = list[str]()
    for _ in range(4):
        loads = [
            ApplicationLoad(name, 4, load + work * (name == at), (query,) if name == at else ())
            for name, load in own.items()
        ]
        found = relief(loads, MARKS)
        if isinstance(found, Relief):
            at = found.target
            moved.append(at)
    assert len(moved) <= 1


def test_load_that_is_foreseen_counts_as_if_it_were_there() -> None:
    origin, target = two(sums(10_000), work=3)
    assert relief([origin, target], MARKS) is None
    found = relief([replace(origin, foreseen=4), target], MARKS)
    assert isinstance(found, Relief)
    assert found.suffices
    assert isinstance(
        relief([replace(origin, foreseen=4), replace(target, foreseen=3)], MARKS), Infeasible
    )


def test_load_is_foreseen_on_the_line_through_the_last_samples() -> None:
    rising = [(minute * 60_000, 0.5 * minute) for minute in range(20)]
    assert foreseen_work(rising, 120) == pytest.approx(10.5)
    assert foreseen_work(rising[:2], 120) == 0
    assert foreseen_work(rising, 0) == 0
    assert foreseen_work([(7, 1.0)] * 5, 60) == 0
    assert foreseen_work([(0, 3.0), (60_000, 2.0), (120_000, 1.0)], 600) == 0


def test_marks_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ProblemError, match="target"):
        Marks(1, 1, high=0.5, target=0.6)
    with pytest.raises(ProblemError, match="bytes_per_s"):
        Marks(0, 1)
    with pytest.raises(ProblemError, match="low"):
        Marks(1, 1, low=0.8)
    with pytest.raises(ProblemError, match="ahead_s"):
        Marks(1, 1, ahead_s=-1)
    with pytest.raises(ProblemError, match="cores"):
        ApplicationLoad("a", 0, 1)
