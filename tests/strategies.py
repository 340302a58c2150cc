"""Generators of problems, small enough to search and nasty enough to matter."""

from __future__ import annotations

from dataclasses import replace

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


@st.composite
def staged_problems(draw: st.DrawFn, max_tasks: int = 6, max_nodes: int = 3) -> StepProblem:
    """Problems of several stages and queries, with slots, memory, copies and limits to keep.

    In some a stage is a Real-time query, whose tasks never end.
    """
    tasks = draw(st.integers(1, max_tasks))
    unit = draw(st.sampled_from([1, 1, 1, 0.1]))
    numbers = st.lists(st.integers(0, 7), min_size=tasks, max_size=tasks)
    work = [unit * load for load in draw(numbers)]
    stage = draw(st.lists(st.integers(0, 2), min_size=tasks, max_size=tasks))
    stages = [sorted(set(stage)).index(each) for each in stage]
    count = max(stages) + 1
    queries = sorted(draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)))
    queries = [query - queries[0] for query in queries]
    homes = draw(st.lists(st.integers(0, max_nodes - 1), min_size=tasks, max_size=tasks))
    plain = StepProblem.of(work, draw(numbers), homes, draw(st.integers(1, max_nodes)), draw(taus))
    after, maybe = plain.nodes_after, st.booleans()
    slots = draw(st.lists(st.sampled_from([0, 0.5, 1, 1, 2]), min_size=after, max_size=after))
    memory = draw(st.lists(st.integers(0, 20), min_size=after, max_size=after))
    is_lasting = draw(maybe)
    stage_at_once = draw(st.integers(0, count - 1))
    lasting = frozenset({stage_at_once} if is_lasting else ())
    seats = draw(st.lists(st.integers(0, tasks), min_size=after, max_size=after))
    ideal = sum(work) / plain.target.nodes
    most = draw(st.lists(st.sampled_from([0.5, 1, 1.5, 3]), min_size=2, max_size=2))
    pair = st.tuples(st.integers(0, tasks - 1), st.integers(0, after - 1))
    copies = draw(st.lists(pair, max_size=draw(st.sampled_from([0, tasks]))))
    return replace(
        plain,
        copies=frozenset(each for each in copies if homes[each[0]] != each[1]),
        stages=tuple(stages),
        queries=tuple(queries),
        slots=tuple(slots) if any(slots) and draw(maybe) else (),
        memory=tuple(memory) if draw(maybe) else (),
        lasting=lasting,
        seats=tuple(seats) if is_lasting and draw(maybe) else (),
        within=draw(st.sampled_from(["batch", "batch", "stage"])),
        most_batch=tuple(ideal * each for each in most[: max(queries) + 1]) if draw(maybe) else (),
        most_busy=ideal * draw(st.sampled_from([1, 1.2, 2])) if draw(maybe) else None,
    )
