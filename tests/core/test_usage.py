"""Usage of many queries on many executors is added as that of few is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.builders import executors, load, observed

from elastream.core import usage
from elastream.core.application import Query
from elastream.core.change import Destination
from elastream.core.load import SIZE_STEP
from elastream.core.usage import Usage, most_of_even_spread
from elastream.placement.even_spread import even_max_load

NAMES = ("a", "b", "c")


@given(st.lists(st.floats(1e-6, 2.0), min_size=1, max_size=40), st.integers(1, 9))
def test_no_even_spread_has_more_on_a_node_than_its_bound(work: list[float], nodes: int) -> None:
    sizes: dict[int, float] = {}
    for each in work:
        size = math.ceil(math.log(each, SIZE_STEP))
        sizes[size] = sizes.get(size, 0.0) + each
    classes = [(SIZE_STEP**size, sizes[size]) for size in sorted(sizes, reverse=True)]
    bound = most_of_even_spread(classes, nodes)
    assert even_max_load(work, nodes, contiguous=False) <= bound * (1 + 1e-9)
    assert bound <= (sum(work) / nodes + SIZE_STEP * max(work)) * (1 + 1e-9)


@given(st.lists(st.tuples(st.sampled_from("abcx"), st.floats(0.0, 0.9)), min_size=2, max_size=12))
def test_usage_is_the_same_for_many_and_few(tasks: list[tuple[str, float]]) -> None:
    loads = {
        name: load([work for _, work in each], [node for node, _ in each], query=name)
        for name, each in {"p": tasks[::2], "q": tasks[1::2]}.items()
    }
    seen = observed(loads, executors(*NAMES, cores=2))

    def figures() -> tuple[list[float], list[float]]:
        found = Usage(seen, catch_up_s=60.0, keep_triggers=False)
        return [found.held[name] for name in NAMES], list(found.each)

    few = figures()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(usage, "_MANY", 0)
        many = figures()
    assert many[0] == pytest.approx(few[0])
    assert many[1] == pytest.approx(few[1])


def test_what_is_missing_follows_each_batch_of_a_query() -> None:
    before = Query("query", "run", tasks=3, load=load([0.1] * 3, "aab"))
    goal = dict(zip(before.load.tasks, "abb", strict=True))
    target = Destination.of(goal, list(goal)[1:2])
    assert [task.partition for task in target.missing(before)] == [1]
    assert target.missing(before) is target.missing(before)
    after = replace(before, load=load([0.1] * 3, "abb"))
    assert target.missing(after) == ()
    assert [task.partition for task in target.missing(before)] == [1]
