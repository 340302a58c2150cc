"""The table of an attachment stays up to date while it is shown, and no longer than that."""

from __future__ import annotations

from collections.abc import Callable

from elastream.attachment.notebook import keep_showing

HANG_S = 120.0


def test_what_is_new_is_shown_in_the_same_place_until_it_is_over() -> None:
    states = iter(["one", "one", "two", "two", "three"])
    left = [False, False, False, True]
    shown: list[str] = []

    def show(html: str) -> Callable[[str], None]:
        shown.append(f"first {html}")
        return shown.append

    keep_showing(lambda: next(states), lambda: left.pop(0), show, every_s=0.0).join(HANG_S)
    assert shown == ["first one", "two", "three"], "also what it was like at the end"
    assert left == []
