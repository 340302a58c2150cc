from __future__ import annotations

import pytest

from elastream.model.words import join_names, pluralize


def test_a_number_stands_with_its_noun() -> None:
    assert [pluralize(n, "task") for n in (0, 1, 2)] == ["0 tasks", "1 task", "2 tasks"]
    assert pluralize(2, "query is", "queries are") == "2 queries are"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], "none"),
        (["a"], "a"),
        ("abcdefgh", "a, b, c, d, e, f, g, h"),
        ("abcdefghi", "a, b, c, d, e, f, g, h, ..."),
    ],
)
def test_a_list_stays_short(names: list[str], text: str) -> None:
    assert join_names(names) == text


def test_a_list_may_be_longer_where_that_is_said() -> None:
    assert join_names("abcdefghij", most=9) == "a, b, c, d, e, f, g, h, i, ..."
