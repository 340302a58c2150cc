"""Draws a migration for people: a row of tasks for each node, before and after."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elastream.model.checks import Number
from elastream.model.migration import StepProblem, exact_sum
from elastream.model.plan import StepPlan

_STAYS, _ARRIVES, _LEAVES, _ELSEWHERE = "█", "▓", "░", "·"
_MOST_NODES = 24
_MOST_TASKS = 96
_BAR_CELLS = 14


def migration(problem: StepProblem, plan: StepPlan) -> RenderableType:
    """Return a picture of ``plan``: which tasks stay, which leave and which arrive, node by node.

    A large cluster gets the summary line alone.
    """
    total = exact_sum(problem.state)
    share = 100 * plan.cost / total if total else 0.0
    before = len(set(problem.current.nodes_of_tasks))
    summary = Text.assemble(
        (f"{before} → {problem.target.nodes} nodes", "bold"),
        f"  {len(plan.moves)} of {len(problem.work)} tasks move with {amount(plan.cost)} of state",
        f" ({share:.1f} %), {plan.status}",
    )
    if len(problem.work) > _MOST_TASKS or plan.assignment.nodes > _MOST_NODES:
        return summary
    return Group(summary, _rows(problem, plan), _legend())


def amount(value: Number) -> str:
    """Return ``value`` in at most a handful of characters, with thousands as k, M, G or T."""
    for letter in ("", "k", "M", "G", "T"):
        if value < 1000 or letter == "T":
            break
        value = value / 1000
    return f"{value:.3g}{letter}" if value < 1000 else f"{value:.3e}{letter}"


def _rows(problem: StepProblem, plan: StepPlan) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("node", justify="right")
    table.add_column(f"tasks 0 to {len(problem.work) - 1}", no_wrap=True)
    table.add_column("load before", justify="right")
    table.add_column("after", justify="right")
    table.add_column(f"limit {amount(plan.limit)}", no_wrap=True)
    before = problem.current.widened(plan.assignment.nodes)
    loads = zip(before.loads(problem.work), plan.assignment.loads(problem.work), strict=True)
    for node, (load_before, load_after) in enumerate(loads):
        tasks = zip(before.nodes_of_tasks, plan.assignment.nodes_of_tasks, strict=True)
        cells = Text()
        for source, target in tasks:
            cells.append(*_cell(source == node, target == node))
        table.add_row(
            str(node), cells, amount(load_before), amount(load_after), _bar(load_after, plan.limit)
        )
    return table


def _cell(was_here: bool, will_be_here: bool) -> tuple[str, str]:
    if was_here and will_be_here:
        return _STAYS, "green"
    if will_be_here:
        return _ARRIVES, "bold yellow"
    if was_here:
        return _LEAVES, "red"
    return _ELSEWHERE, "dim"


def _bar(load: Number, limit: float) -> Text:
    filled = min(_BAR_CELLS, round(_BAR_CELLS * load / limit)) if limit else 0
    return Text("━" * filled, "cyan") + Text("─" * (_BAR_CELLS - filled), "dim")


def _legend() -> Text:
    return Text.assemble(
        (_STAYS, "green"),
        " stays  ",
        (_ARRIVES, "bold yellow"),
        " arrives  ",
        (_LEAVES, "red"),
        " leaves",
    )
