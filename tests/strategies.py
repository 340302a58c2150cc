"""Generators of problems, small enough to search and nasty enough to matter."""

from __future__ import annotations

from hypothesis import strategies as st

from elastream.model.migration import StepProblem

taus = st.sampled_from([0, 0.1, 0.25, 0.4, 0.8, 1.2, 3])
"""Load-balancing thresholds, the tight and the loose."""


@st.composite
def intervals(draw: st.DrawFn, tasks: int, max_nodes: int) -> list[tuple[int, int]]:
    """Intervals that tile the tasks, some empty, in any node order."""
    nodes = draw(st.integers(1, max_nodes))
    cuts = sorted(draw(st.lists(st.integers(0, tasks), min_size=nodes - 1, max_size=nodes - 1)))
    pairs = list(zip([0, *cuts], [*cuts, tasks], strict=True))
    return draw(st.permutations(pairs))


@st.composite
def step_problems(draw: st.DrawFn, max_tasks: int = 7, max_nodes: int = 4) -> StepProblem:
    """One migration of whole or fractional loads and sizes, zeros and equal values among them."""
    tasks = draw(st.integers(1, max_tasks))
    unit = draw(st.sampled_from([1, 1, 0.1, 0.125]))
    work = draw(st.lists(st.integers(0, 6), min_size=tasks, max_size=tasks))
    state = draw(st.lists(st.integers(0, 9), min_size=tasks, max_size=tasks))
    return StepProblem.of(
        [unit * load for load in work],
        [unit * size for size in state],
        draw(intervals(tasks, max_nodes)),
        draw(st.integers(1, max_nodes)),
        draw(taus),
    )
