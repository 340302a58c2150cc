"""transfer-phases: time to schedule, number of phases, length against whole tasks in turn.

Lengths are over the least possible: ours must be exactly 1. Next to it the length without phases,
where whole tasks are sent, each in its turn as soon as both its links are free.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from elastream.foresight.ssm.single_step import single_step
from elastream.model.plan import Move, StepPlan
from elastream.placement.transfer.forecast import tasks_in_order, timed_phases
from elastream.placement.transfer.transfer_phases import least_length, transfer_phases
from elastream_lab.benchmarks._problems import skewed
from elastream_lab.rivals.even_split import even_split
from elastream_lab.studies.transfer.whole_tasks import whole_tasks_s


def run() -> None:
    """Print a row for each migration, planned migrations first, then random ones."""
    table = Table(title="transfer phases: all state in the least time")
    for heading in (
        "moves",
        "tasks",
        "pairs",
        "busy",
        "ms",
        "phases",
        "length",
        "in turn",
        "unordered",
    ):
        table.add_column(heading, justify="left" if heading == "moves" else "right", no_wrap=True)
    transfer_phases([(0, 1, 1)])  # loads SciPy
    for name, moves in _migrations():
        pairs = {(move.source, move.target) for move in moves}
        partners = Counter([source for source, _ in pairs])
        partners |= Counter([target for _, target in pairs])
        times = []
        for _ in range(3):
            started = time.perf_counter()
            phases = transfer_phases(moves)
            times.append(time.perf_counter() - started)
        bound = least_length(moves)
        nodes = 1 + max(max(pair) for pair in pairs)
        timed = timed_phases(moves, 1, nodes)
        table.add_row(
            name,
            f"{len(moves):,}",
            f"{len(pairs):,}",
            f"{max(partners.values())}",
            f"{min(times) * 1e3:.1f}",
            f"{len(phases)}",
            f"{sum(phase.length for phase in phases) / bound:.3f}",
            f"{_whole_tasks(moves, tasks_in_order(timed)) / bound:.3f}",
            f"{_whole_tasks(moves, sorted(move.task for move in moves)) / bound:.3f}",
        )
    Console().print(table)
    print("busy: partners of the node that has most, the least phases any schedule needs")


def _migrations() -> list[tuple[str, Sequence[Move]]]:
    small, large = skewed(64, 8, 10, 0.4), skewed(20_000, 250, 300, 0.2)
    plan = single_step(large)
    assert isinstance(plan, StepPlan)
    return [
        ("even 8→10", even_split(small).moves),
        ("even 250→300", even_split(large).moves),
        ("single 250→300", plan.moves),
        ("all to all 6", _all_to_all(6)),
        ("all to all 40", _all_to_all(40)),
        ("random 100", _random(100, 1_000)),
        ("random 300", _random(300, 9_000)),
    ]


def _all_to_all(nodes: int) -> list[Move]:
    """Return one task of the same size from every node to every other."""
    pairs = [(i, j) for i in range(nodes) for j in range(nodes) if i != j]
    return [Move(task, *pair, 10**6) for task, pair in enumerate(pairs)]


def _random(nodes: int, moves: int) -> list[Move]:
    """Return moves between random nodes, of sizes that fall off like a power."""
    rng = np.random.default_rng(0)
    sources = rng.integers(0, nodes, size=moves)
    targets = (sources + rng.integers(1, nodes, size=moves)) % nodes
    sizes = np.rint(1e6 * (1 + rng.pareto(1.5, size=moves))).astype(int)
    ends = zip(sources.tolist(), targets.tolist(), sizes.tolist(), strict=True)
    return [Move(task, *end) for task, end in enumerate(ends)]


def _whole_tasks(moves: Sequence[Move], order: Sequence[int]) -> float:
    by_task = {move.task: move for move in moves}
    sent = [by_task[task] for task in order]
    return whole_tasks_s([(move.source, move.target, move.state) for move in sent], 1.0)
