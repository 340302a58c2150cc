"""The demo as one picture: rate, executors, state moved, and how long rows waited."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from elastream.atomic_io import write_picture
from elastream.cli.demo.summary import changes_of
from elastream.demo.demo_run import DemoRun
from elastream.demo.posts import EVERY_S
from elastream.demo.realtime import RealtimeDemo
from elastream.demo.run import Demo

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_picture(demo: DemoRun, path: Path) -> None:
    """Draw the run to a file, in the format that its ending says."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 8), layout="constrained")
    FigureCanvasAgg(figure)
    rate, executors, moved, response = panels = figure.subplots(4, 1, sharex=True)
    _executors(executors, demo)
    _moved(moved, demo)
    match demo:
        case RealtimeDemo():
            _posts_by_second(rate, demo)
            _latency_by_second(response, demo)
            _changes(panels, demo)
        case Demo():
            _rate(rate, demo)
            _response(response, demo)
    response.set_xlabel("seconds")
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"elastream demo: {demo.rows:,} {demo.rows_name}; {demo.work}")
    write_picture(path, figure)


def _rate(axes: Axes, demo: Demo) -> None:
    at_s = [demo.since_s(file.due_ms) for file in demo.counted]
    rates = [file.posts / EVERY_S for file in demo.counted]
    _fill_rates(axes, at_s, rates, "posts")


def _posts_by_second(axes: Axes, demo: RealtimeDemo) -> None:
    words = Counter(int(demo.since_s(word.due_ms)) for word in demo.counted)
    at_s = sorted(words)
    _fill_rates(axes, at_s, [words[second] for second in at_s], "words")


def _fill_rates(axes: Axes, at_s: Sequence[float], rates: Sequence[float], name: str) -> None:
    axes.fill_between(at_s, rates, step="post", color="tab:blue", alpha=0.4)
    axes.set_ylabel(f"{name} a second")


def _executors(axes: Axes, demo: DemoRun) -> None:
    at_s = [sample.at_s for sample in demo.samples]
    at_work = [sample.executors for sample in demo.samples]
    alive = [sample.alive for sample in demo.samples]
    axes.step(at_s, alive, where="post", linestyle=":", color="tab:gray", label="with the spare")
    axes.step(at_s, at_work, where="post", color="tab:green", label="at work")
    axes.legend(loc="lower center", ncols=2, frameon=False)
    axes.set_ylim(0, demo.most_executors + 0.5)
    axes.set_ylabel("executors")


def _moved(axes: Axes, demo: DemoRun) -> None:
    moves = [d for d in demo.decisions if d.kind == "migrate" and d.at_ms is not None]
    at_s = [demo.since_s(decision.at_ms) for decision in moves]
    sizes = [decision.figures.get("bytes", 0) / 1000 for decision in moves]
    axes.bar(at_s, sizes, width=demo.length_s / 150, color="tab:orange")
    for x, size, decision in zip(at_s, sizes, moves, strict=True):
        axes.annotate(f"{decision.figures.get('tasks', 0)}", (x, size), ha="center", fontsize=8)
    axes.margins(y=0.25)
    axes.set_ylabel("kB of state moved\n(figures: partitions)")


def _response(axes: Axes, demo: Demo) -> None:
    at_s = [demo.since_s(file.finished_ms) for file in demo.counted]
    waited_s = [file.response_ms / 1000 for file in demo.counted]
    axes.plot(at_s, waited_s, color="tab:purple", linewidth=1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("response time, s")


def _latency_by_second(axes: Axes, demo: RealtimeDemo) -> None:
    by_second = defaultdict(list)
    for word in demo.counted:
        by_second[int(demo.since_s(word.due_ms))].append(max(1.0, word.latency_ms))
    at_s = sorted(by_second)
    middles = [second + 0.5 for second in at_s]
    worst = [max(by_second[second]) for second in at_s]
    axes.plot(middles, worst, color="tab:red", linewidth=1, label="worst")
    medians = [median(by_second[second]) for second in at_s]
    axes.plot(middles, medians, color="tab:purple", label="median")
    boundaries = [demo.since_s(each.at_ms) for each in demo.boundaries()]
    for number, at in enumerate(boundaries):
        label = None if number else "end of a batch"
        axes.axvline(at, color="tab:gray", linewidth=0.6, linestyle=":", label=label)
    axes.set_yscale("log")
    axes.legend(loc="upper right", ncols=3, frameon=False)
    axes.set_ylabel("latency by second, ms")


def _changes(panels: Iterable[Axes], demo: DemoRun) -> None:
    """Shade the time of each change in every panel."""
    for change in changes_of(demo.decisions):
        begin_s, end_s = map(demo.since_s, change.span_ms)
        for axes in panels:
            axes.axvspan(begin_s, end_s, color="tab:orange", alpha=0.12, linewidth=0)
