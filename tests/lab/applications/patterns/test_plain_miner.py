from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.errors import ProblemError
from elastream_lab.applications.patterns.plain_miner import Mining, changes, differing, mined

POSTS = st.lists(st.sets(st.sampled_from("abcde"), max_size=4).map(sorted), min_size=1, max_size=14)


@given(POSTS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
@settings(max_examples=200)
def test_what_is_carried_along_is_what_counting_anew_finds(
    posts: list[list[str]], tick: int, ticks: int, least: int, most: int
) -> None:
    mining = Mining(window=tick * ticks, tick=tick, least=least, most_words=most)
    found = mined(posts, mining)
    assert list(found) == list(range(tick, len(posts), tick))
    for end, maximal in found.items():
        window = [set(words) for words in posts[max(0, end - mining.window) : end]]
        every = [set(p) for n in range(1, most + 1) for p in combinations("abcde", n)]
        frequent = [p for p in every if sum(p <= words for words in window) >= least]
        largest = [p for p in frequent if not any(p < other for other in frequent)]
        assert maximal == {" ".join(sorted(p)) for p in largest}


def test_changes_are_what_becomes_and_what_stops() -> None:
    report = {2: frozenset({"a"}), 4: frozenset({"a b"}), 6: frozenset({"a b", "c"})}
    assert list(changes(report)) == [
        (2, "a", True), (4, "a b", True), (4, "a", False), (6, "c", True),
    ]  # fmt: skip


def test_a_tick_without_patterns_need_not_be_reported() -> None:
    assert differing({4: frozenset("a")}, {2: frozenset(), 4: frozenset("a")}) == 0
    assert differing({}, {2: frozenset("a")}) == 1


@pytest.mark.parametrize(
    ("settings_", "field"),
    [({"window": 7, "tick": 2}, "window"), ({"tick": 0}, "tick"), ({"most_words": 9}, "most_words"),
     ({"least": 0}, "least"), ({"window": 500, "tick": 1}, "window")],
)  # fmt: skip
def test_what_is_wrong_is_named(settings_: dict[str, int], field: str) -> None:
    with pytest.raises(ProblemError) as caught:
        Mining(**settings_)
    assert caught.value.field == field
