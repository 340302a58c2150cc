"""The demo as one picture: rate, executors, state moved and response time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from elastream.atomic_io import write_picture
from elastream.demo.posts import EVERY_S
from elastream.demo.run import Demo

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_picture(demo: Demo, path: Path) -> None:
    """Draw the run to a file, in the format that its ending says."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 8), layout="constrained")
    FigureCanvasAgg(figure)
    rate, executors, moved, response = figure.subplots(4, 1, sharex=True)
    _rate(rate, demo)
    _executors(executors, demo)
    _moved(moved, demo)
    _response(response, demo)
    response.set_xlabel("seconds")
    for axes in (rate, executors, moved, response):
        axes.spines[["top", "right"]].set_visible(False)
    slept = f"each word sleeps {demo.service_us:g} µs in place of work"
    figure.suptitle(f"elastream demo: {demo.posts_counted:,} posts, {slept}")
    write_picture(path, figure)


def _rate(axes: Axes, demo: Demo) -> None:
    at_s = [_since(demo, file.due_ms) for file in demo.counted]
    rates = [file.posts / EVERY_S for file in demo.counted]
    axes.fill_between(at_s, rates, step="post", color="tab:blue", alpha=0.4)
    axes.set_ylabel("posts a second")


def _executors(axes: Axes, demo: Demo) -> None:
    at_s = [sample.at_s for sample in demo.samples]
    at_work = [sample.executors for sample in demo.samples]
    alive = [sample.alive for sample in demo.samples]
    axes.step(at_s, alive, where="post", linestyle=":", color="tab:gray", label="with the spare")
    axes.step(at_s, at_work, where="post", color="tab:green", label="at work")
    axes.legend(loc="lower center", ncols=2, frameon=False)
    axes.set_ylim(0, demo.most_executors + 0.5)
    axes.set_ylabel("executors")


def _moved(axes: Axes, demo: Demo) -> None:
    moves = [d for d in demo.decisions if d.kind == "migrate" and d.at_ms is not None]
    at_s = [_since(demo, decision.at_ms) for decision in moves]
    sizes = [decision.figures.get("bytes", 0) / 1000 for decision in moves]
    axes.bar(at_s, sizes, width=demo.length_s / 150, color="tab:orange")
    for x, size, decision in zip(at_s, sizes, moves, strict=True):
        axes.annotate(f"{decision.figures.get('tasks', 0)}", (x, size), ha="center", fontsize=8)
    axes.margins(y=0.25)
    axes.set_ylabel("kB of state moved\n(figures: partitions)")


def _response(axes: Axes, demo: Demo) -> None:
    at_s = [_since(demo, file.finished_ms) for file in demo.counted]
    waited_s = [file.response_ms / 1000 for file in demo.counted]
    axes.plot(at_s, waited_s, color="tab:purple", linewidth=1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("response time, s")


def _since(demo: Demo, at_ms: float | None) -> float:
    return ((at_ms or 0) - (demo.start_ms or 0)) / 1000
