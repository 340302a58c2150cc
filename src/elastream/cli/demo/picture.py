"""The demo as one picture: rate, executors, state moved and response time over the day."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elastream.atomic_io import write_picture
from elastream.demo.run import Demo

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_picture"]


def draw_picture(demo: Demo, path: Path) -> None:
    """Draw the run to a file whose ending says the format."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 8), layout="constrained")
    FigureCanvasAgg(figure)
    rate, executors, moved, response = figure.subplots(4, 1, sharex=True)
    _rate(rate, demo)
    _executors(executors, demo)
    _moved(moved, demo)
    _response(response, demo)
    response.set_xlabel("seconds after the replay started")
    slept = f"each word sleeps {demo.service_us:g} µs" if demo.service_us else "no service time"
    figure.suptitle(f"elastream demo: {demo.recording.rows:,} posts, {slept}")
    write_picture(path, figure)


def _rate(axes: Axes, demo: Demo) -> None:
    edges = np.arange(0.0, demo.recording.replay_s + 2, 2)
    posts, _ = np.histogram(demo.recording.due_ms / 1000, bins=edges)
    axes.stairs(posts / 2, edges, fill=True, color="tab:blue", alpha=0.4)
    _label(axes, "posts a second")


def _executors(axes: Axes, demo: Demo) -> None:
    at_s = [sample.at_s for sample in demo.samples]
    alive = [len(s.tasks_of) for s in demo.samples]
    axes.step(at_s, alive, where="post", color="tab:green", label="alive, a spare too")
    holding = [sum(bool(tasks) for tasks in s.tasks_of.values()) for s in demo.samples]
    axes.step(at_s, holding, where="post", linestyle=":", color="tab:gray", label="holding state")
    axes.legend(loc="lower center", ncols=2, frameon=False)
    axes.set_ylim(0, demo.settings.executors_max + 0.5)
    _label(axes, "executors")


def _moved(axes: Axes, demo: Demo) -> None:
    moves = [d for d in demo.decisions if d.kind == "migrate" and d.at_ms is not None]
    at_s = [_since(demo, decision.at_ms) for decision in moves]
    sizes = [decision.figures.get("bytes", 0) / 1000 for decision in moves]
    axes.bar(at_s, sizes, width=max(demo.recording.replay_s / 150, 0.2), color="tab:orange")
    for x, size, decision in zip(at_s, sizes, moves, strict=True):
        axes.annotate(f"{decision.figures.get('tasks', 0)}", (x, size), ha="center", fontsize=8)
    axes.margins(y=0.25)
    _label(axes, "kB of state moved\n(figures: partitions)")


def _response(axes: Axes, demo: Demo) -> None:
    from elastream.harness.response_time import responses, spread

    at_s, medians, worsts = [], [], []
    for batch in demo.batches:
        rows = responses(demo.recording.due_ms, demo.start_ms or 0, [batch], first=demo.lead_rows)
        found = spread(rows)
        if found is not None:
            at_s.append(_since(demo, batch.finished_ms))
            medians.append(found.median / 1000)
            worsts.append(found.worst / 1000)
    axes.plot(at_s, worsts, color="tab:red", linewidth=1, label="worst of a batch")
    axes.plot(at_s, medians, color="tab:purple", linewidth=1, label="median of a batch")
    axes.legend(loc="upper right", frameon=False)
    axes.set_ylim(bottom=0)
    _label(axes, "response time, s")


def _since(demo: Demo, at_ms: float | None) -> float:
    return ((at_ms or 0) - (demo.start_ms or 0)) / 1000


def _label(axes: Any, text: str) -> None:
    axes.set_ylabel(text)
    axes.spines[["top", "right"]].set_visible(False)
