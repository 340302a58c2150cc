"""The migration benchmark as figure 15 of paper 000: response time around a migration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.atomic_io import write_picture
from elastream_lab.benchmarks.migration.bench import BenchResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_COLOURS = {
    "stock": "tab:gray",
    "live": "tab:green",
    "live-cold": "tab:olive",
    "live-spare": "tab:purple",
    "all-at-once": "tab:cyan",
    "progressive": "tab:blue",
    "pause": "tab:orange",
    "restart": "tab:red",
}
_SHARED = {"stock": "Spark as it is", "live": "with elastream"}
_LEAD_S = 10.0
_SETTLED = "steady again"


def draw_figure(results: Sequence[BenchResult], path: Path) -> None:
    """Draw the mean response time of each batch, a panel for each direction and state.

    A line for each repeat, from before the change was asked for; a mark where the query is steady
    again.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    states = list(dict.fromkeys(result.state for result in results))
    figure = Figure(figsize=(11, 3.8 * max(1, len(states))), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(max(1, len(states)), 2, squeeze=False, sharey=True)
    for row, state in zip(panels, states, strict=False):
        for axes, direction in zip(row, ("out", "in"), strict=True):
            here = [r for r in results if (r.state, r.change.direction) == (state, direction)]
            for result in here:
                _draw_line(axes, result)
            axes.axvline(0, color="black", linewidth=0.8, linestyle=":")
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
            sizes = " → ".join(str(n) for r in here[:1] for n in (r.change.before, r.change.after))
            axes.set_title(f"{state} state: {sizes} executors")
            axes.set_xlabel("seconds since it was asked for")
            axes.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel("mean response time of a batch, s")
    handles, names = panels[0][0].get_legend_handles_labels()
    once = dict(zip(names, handles, strict=True))
    if _SETTLED in once:
        once[_SETTLED] = once.pop(_SETTLED)
    figure.legend(
        once.values(), once.keys(), frameon=False, loc="outside lower center", ncols=len(once)
    )
    write_picture(path, figure)


def _draw_line(axes: Axes, result: BenchResult) -> None:
    mechanism, colour = result.change.mechanism, _COLOURS[result.change.mechanism]
    at_s, response_s = zip(*result.series, strict=True)
    axes.plot(at_s, response_s, marker=".", linewidth=1, color=colour, label=mechanism)
    if result.figures.steady_again:
        settled_s = result.figures.asked_to_settled_s
        height = min(result.series, key=lambda point: abs(point[0] - settled_s))[1]
        axes.plot(settled_s, height, "o", color=colour, fillstyle="none", label=_SETTLED)


def draw_shares(results: Sequence[BenchResult], path: Path) -> None:
    """Draw what new executors do of the work, and what that does for the response time.

    Of the first repeat.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = [
        result
        for result in results
        if result.change.direction == "out"
        and (result.state, result.repeat) == (results[0].state, 1)
        and result.change.mechanism in _SHARED
    ]
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    working, answered = figure.subplots(1, 2)
    for result in shown:
        name, colour = _SHARED[result.change.mechanism], _COLOURS[result.change.mechanism]
        since = [(at_s, 100 * share) for at_s, share in result.shares if at_s >= -_LEAD_S]
        working.plot(*zip(*since, strict=True), color=colour, label=name, drawstyle="steps-post")
        response = [point for point in result.series if point[0] >= -_LEAD_S]
        answered.plot(*zip(*response, strict=True), color=colour, label=name)
    share = 100 * max(1 - r.change.before / r.change.after for r in results)
    working.axhline(share, color="black", linewidth=0.8, linestyle="--")
    working.annotate("an even share", (-_LEAD_S, share), va="bottom")
    working.set_title("work of the stateful tasks done by new executors, %")
    answered.set_title("response time of a row, s")
    answered.set_ylim(bottom=0)
    for axes in (working, answered):
        axes.axvline(0, color="black", linewidth=0.8, linestyle=":")
        axes.set_xlabel("seconds since they were asked for")
        axes.spines[["top", "right"]].set_visible(False)
    working.legend(frameon=False, loc="center right")
    write_picture(path, figure)
