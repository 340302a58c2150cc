from __future__ import annotations

from collections import Counter

import pytest

from elastream.demo.posts import EVERY_S, WORDS_A_POST, busy_spell, file_of_posts, whole_day
from elastream.demo.run import Demo


@pytest.mark.parametrize("load", [busy_spell(), whole_day()], ids=["busy spell", "whole day"])
def test_a_load_begins_and_ends_quietly(load: tuple[int, ...]) -> None:
    assert max(load) > 3 * load[0]
    assert max(load) > 3 * load[-1]


def test_the_same_seed_gives_the_same_posts_and_another_seed_others() -> None:
    assert file_of_posts(50, seed=3) == file_of_posts(50, seed=3)
    assert file_of_posts(50, seed=3) != file_of_posts(50, seed=4)


def test_a_few_words_are_frequent_and_most_are_rare() -> None:
    words = Counter(file_of_posts(5000, seed=1).split())
    (_, most), *_ = words.most_common(1)
    assert most > 20 * sum(words.values()) / len(words)


@pytest.mark.parametrize("long", [False, True])
def test_the_busiest_moment_keeps_half_of_the_most_executors_asleep(long: bool) -> None:
    demo = Demo(long)
    slept = max(demo.sizes) / EVERY_S * WORDS_A_POST * demo.service_us / 1e6
    assert slept == pytest.approx(demo.most_executors / 2, rel=0.01)
