"""Generators of streams and of what happens to them."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from elastream.handover.model import QueryShape, Window
from elastream.handover.testing.windows import LATER_CHAIN
from elastream.testing import HandoverScenario, Row

sizes = st.one_of(st.integers(1, 6), st.integers(1, 50))


@st.composite
def shapes(draw: st.DrawFn) -> tuple[QueryShape, Window | None]:
    """A query over time or row windows: an aggregation, a join, or Q3's chain of both."""
    kind = draw(st.sampled_from(["time", "rows"]))
    window = Window.of(kind, draw(sizes), draw(sizes))
    operation = draw(st.sampled_from(["aggregate", "aggregate", "join", "chain", LATER_CHAIN]))
    lateness = draw(st.sampled_from([0, 0, 0, 2, 9]))
    if operation in ("chain", LATER_CHAIN):
        window = Window.of("rows", draw(st.integers(1, 8)), draw(st.integers(1, 8)))
        join = Window.of("time", draw(sizes), draw(st.integers(1, 4)))
        return QueryShape("q", window, 2, operation, lateness), join
    inputs = 2 if operation == "join" else draw(st.integers(1, 3))
    return QueryShape("q", window, inputs, operation, lateness), None


@st.composite
def streams(draw: st.DrawFn, inputs: int, lateness: int) -> list[tuple[int, Row]]:
    """Rows of all inputs, in order or out of order by no more than the lateness.

    Dense to sparse, with equal timestamps, with gaps, with inputs that start late.
    """
    density = draw(st.sampled_from([1, 1, 3, 12]))
    steps = draw(st.sampled_from([(0, 1), (1,), (0, 0, 1, 1, 2, 5), (0, 1, 2, 40)]))
    values = draw(st.sampled_from([1, 2, 5]))
    silent = draw(st.sampled_from([0, 0, 20]))
    rows = draw(st.integers(5, 70))
    dice = random.Random(draw(st.integers(0, 2**32)))
    now, stream = 50, []
    for number in range(rows):
        now += dice.choice(steps) * density
        i = 0 if number < silent else dice.randrange(inputs)
        stream.append((i, Row(now - dice.randint(0, lateness), number % values)))
    return stream


@st.composite
def scenarios(draw: st.DrawFn) -> HandoverScenario:
    """A handover at any moment of a stream, the origin behind or not."""
    shape, join = draw(shapes())
    stream = draw(streams(shape.inputs, shape.lateness))
    return HandoverScenario(
        shape,
        stream,
        join,
        begin=draw(st.integers(0, max(0, len(stream) - 5))),
        connect_after=draw(st.sampled_from([(0, 0, 0), (4, 0, 6), (1, 6, 0)])),
        lag=draw(st.sampled_from([0, 0, 3, 15])),
        seed=draw(st.integers(0, 2**32)),
    )
