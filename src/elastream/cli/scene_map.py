"""Where state is, in characters: a row for each executor, for whoever has no browser at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final

from rich.table import Table
from rich.text import Text

from elastream.cli.screen import literal
from elastream.core.goal import Marks
from elastream.core.scenes import Scene, SceneExecutor, SceneTask
from elastream.model.observation import TaskId
from elastream.model.words import pluralize

_BAR: Final = 20
_MOST_CELLS: Final = 48
"""More tasks of an executor than this are told by their number."""
_SHADES: Final = ("dim", "", "bold", "bold reverse")
"""Of a task that keeps its executor busy for up to 2, 10, 25 and more percent of its time."""
_STEPS: Final = (0.02, 0.1, 0.25)
_COLOURS: Final = ("cyan", "yellow", "green", "magenta", "blue", "red")

Tasks = list[tuple[TaskId, SceneTask]]


def scene_map(scene: Scene) -> Table:
    """Return the executors with how busy they are and what they hold.

    A task is its partition's number, the brighter the more it keeps its executor busy; ``3>b``
    moves to executor b; ``(3)`` is a copy that follows.
    """
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(justify="right")
    table.add_column()
    held, copies = _by_executor(scene.tasks)
    several = len(scene.queries) > 1
    for number, (name, executor) in enumerate(scene.executors.items()):
        cells = Text(style=_COLOURS[number % len(_COLOURS)])
        for label, group in _groups(held.get(name, []), several=several):
            cells.append_text(literal(f"{label} " if label else "", "italic"))
            cells.append_text(_cells(group, executor))
        for label, group in _groups(copies.get(name, []), several=several):
            cells.append_text(literal(f"{label} " if label else "", "dim italic"))
            cells.append(f"{_copies(group)} ", "dim")
        table.add_row(f"executor {name}", _bar(executor, scene.loop.marks), _busy(executor), cells)
    return table


def _by_executor(tasks: Mapping[TaskId, SceneTask]) -> tuple[dict[str, Tasks], dict[str, Tasks]]:
    """Return what each executor holds, and the copies on it."""
    held: dict[str, Tasks] = {}
    copies: dict[str, Tasks] = {}
    for pair in tasks.items():
        held.setdefault(pair[1].executor, []).append(pair)
        if pair[1].standby is not None:
            copies.setdefault(pair[1].standby, []).append(pair)
    return held, copies


def _groups(tasks: Tasks, *, several: bool) -> Iterable[tuple[str, Tasks]]:
    """Yield the tasks of each operator, with its name where there is more than one query."""
    for (query, operator), group in groupby(tasks, key=lambda pair: pair[0][:2]):
        yield f"{query}/{operator}" if several else "", list(group)


def _cells(tasks: Tasks, executor: SceneExecutor) -> Text:
    cells = Text()
    if len(tasks) > _MOST_CELLS:
        cells.append(f"{pluralize(len(tasks), 'task')} ")
        return cells
    for task, each in tasks:
        share = each.work / executor.cores
        shade = _SHADES[sum(share > step for step in _STEPS)]
        cells.append(f"{task.partition}", shade)
        cells.append_text(literal(f">{each.heading} " if each.heading is not None else " ", "bold"))
    return cells


def _copies(tasks: Tasks) -> str:
    if len(tasks) > _MOST_CELLS:
        return f"({pluralize(len(tasks), 'copy', 'copies')})"
    return " ".join(f"({task.partition})" for task, _ in tasks)


def _busy(executor: SceneExecutor) -> str:
    return "-" if executor.busy is None else f"{executor.busy:.0%}"


def _bar(executor: SceneExecutor, marks: Marks | None) -> Text:
    """Return how busy an executor is, with the band that the goal keeps."""
    if executor.spare or not executor.warm:
        return Text(("spare" if executor.spare else "cold").center(_BAR), "dim")
    filled = round(_BAR * min(executor.busy or 0.0, 1.0))
    bar = ["█"] * filled + ["░"] * (_BAR - filled)
    for mark in () if marks is None else (marks.low, marks.high):
        bar[min(_BAR - 1, round(_BAR * mark))] = "│"
    above = marks is not None and (executor.busy or 0.0) > marks.high
    return Text("".join(bar), "red" if above else "green")
