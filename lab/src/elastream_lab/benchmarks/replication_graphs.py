"""replication: what a proof takes by the graph of the application, with many operators."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from elastream_lab.benchmarks._counted import Counted, counted
from elastream_lab.benchmarks._graphs import GRAPHS, made_application, with_risen_rates

_SEEDS = range(3)
_NODES, _REPLICAS = 16, 2
_EFFORT = 3e9
"""A third of what the planner has by default."""


def run() -> None:
    """Print the table."""
    title = f"{_NODES} nodes, up to {_REPLICAS} replicas, least to most of {len(_SEEDS)}"
    table = Table(title=f"seconds of one core (millions of values): {title}")
    for column in ("graph", "operators", "first deployment", "from a current one"):
        table.add_column(column, justify="right")
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("solving", total=len(GRAPHS) * len(_SEEDS))
        for graph in GRAPHS:
            first, risen = [], []
            for seed in _SEEDS:
                made = made_application(graph, nodes=_NODES, max_replicas=_REPLICAS, seed=seed)
                first.append(counted(made, _EFFORT))
                later = with_risen_rates(made, first[-1].plan.deployment)
                risen.append(counted(later, _EFFORT))
                bar.advance(task)
            table.add_row(graph.name, str(graph.operators), _cell(first), _cell(risen))
    Console().print(table)


def _cell(solved: list[Counted]) -> str:
    seconds = sorted(each.seconds for each in solved)
    values = sorted(each.values / 1e6 for each in solved)
    cell = f"{seconds[0]:.2f} to {seconds[-1]:.2f} ({values[0]:.0f} to {values[-1]:.0f})"
    open_ = [each.plan.gap for each in solved if not each.proven]
    return f"{cell}, {len(open_)} not proven, gap to {max(open_):.1%}" if open_ else cell
