"""A run as a picture, from its decision log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.core.decision_log import EMPTY, entry_of
from elastream.core.decisions import Decision
from elastream.core.scene_lines import Json, laid_over
from elastream.extras import expect_installed
from elastream.jsonl import lines_of
from elastream.model.errors import ProblemError
from elastream.page.metric_view import View, number_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CHANGES: Final = ("scale-out", "scale-in", "rebalance", "move")
_SIZE: Final = (9.0, 8.0)
_MS_A_DAY: Final = 86_400_000.0
Points = list[tuple[float, float]]
"""Moments in ms with a value each, in the order of time."""


@dataclass(slots=True)
class Course:
    """What is drawn of a run."""

    executors: Points = field(default_factory=list)
    most: Points = field(default_factory=list)
    busy: Points = field(default_factory=list)
    batches: dict[str, Points] = field(default_factory=dict)
    """How long batches took, in ms, by query."""
    state: dict[str, Points] = field(default_factory=dict)
    """Bytes of state, by query."""
    changes: list[tuple[float, str]] = field(default_factory=list)
    """When a change began, and its kind."""


def plot(log: Path | str) -> Figure:
    """Return a picture of the run in a decision log, for a notebook or ``savefig``.

    Executors, utilisation, batch times and state over time; dotted lines are the beginnings of
    changes. Needs matplotlib. Raises ``ProblemError`` where the log cannot be read, or has nothing
    to draw.
    """
    expect_installed("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

    course = course_of(Path(log))
    figure = Figure(figsize=_SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    executors, busy, batches, state = figure.subplots(4, 1, sharex=True)
    _line(executors, course.most, "allowed", linestyle=":", color="tab:gray")
    _line(executors, course.executors, "at work", color="tab:green")
    _line(busy, course.busy, "utilisation", color="tab:blue")
    for name, points in course.batches.items():
        _line(batches, [(at, ms / 1000) for at, ms in points], name, linewidth=1)
    for name, points in course.state.items():
        _line(state, [(at, size / 1e6) for at, size in points], name)
    for axes, label in (
        (executors, "executors"),
        (busy, "busy"),
        (batches, "batch, s"),
        (state, "state, MB"),
    ):
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        for at, _ in course.changes:
            axes.axvline(_moment(at), color="tab:orange", linestyle=":", linewidth=0.8)
    executors.legend(loc="lower right", ncols=2, frameon=False)
    if len(course.batches) > 1:
        batches.legend(loc="upper right", frameon=False)
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    state.xaxis.set_major_locator(locator)
    state.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    figure.suptitle(Path(log).name)
    return figure


def course_of(log: Path) -> Course:
    """Return what a log shows of its run, over time."""
    course, seen, found = Course(), None, False
    for where, line in lines_of(log):
        entry = entry_of(where, line)
        found = found or entry is not None
        if isinstance(entry, Decision):
            if entry.kind in _CHANGES and entry.at_ms is not None:
                course.changes.append((entry.at_ms, entry.kind))
        elif isinstance(entry, dict) and (seen is not None or entry.get("whole")):
            seen = laid_over(seen or entry, entry)
            _add(course, seen, entry.get("batches", []))
    if not found:
        raise ProblemError(str(log), EMPTY)
    if seen is None:
        raise ProblemError(str(log), "has no scenes to draw; was it written by a function?")
    return course


def _add(course: Course, seen: Json, batches: list[list[Any]]) -> None:
    view = View.of(seen)
    at_ms = view.at_ms
    if at_ms is None:
        return
    for points, value in (
        (course.executors, view.working),
        (course.most, view.of_loop("most") if view.attached else None),
        (course.busy, view.utilisation),
    ):
        if value is not None:
            points.append((at_ms, value))
    for (name,), size in view.of_queries("state_bytes"):
        if size is not None:
            course.state.setdefault(name, []).append((at_ms, size))
    for query, _, ended_ms, ms, _ in batches:
        if number_of(ended_ms) is not None and number_of(ms) is not None:
            course.batches.setdefault(query, []).append((ended_ms, ms))


def _line(axes: Axes, points: Points, label: str, **look: Any) -> None:
    options: Mapping[str, Any] = {"drawstyle": "steps-post", "label": label, **look}
    axes.plot([_moment(at) for at, _ in points], [value for _, value in points], **options)


def _moment(at_ms: float) -> float:
    """Return a moment as matplotlib counts it: in days since the epoch."""
    return at_ms / _MS_A_DAY
