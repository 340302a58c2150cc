"""The elasticity benchmark as one picture: the load, the executors of each way, what rows wait."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from elastream.atomic_io import write_picture
from elastream_lab.benchmarks.elasticity.oracle import ORACLE, Oracle
from elastream_lab.benchmarks.elasticity.run import ReplayedLoad, WayResult
from elastream_lab.benchmarks.elasticity.settings import ElasticitySettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_COLOURS: Final = {
    "fixed-min": "tab:gray",
    "fixed-max": "black",
    "spark-dynamic": "tab:orange",
    "elastream": "tab:green",
    "elastream-ahead": "tab:blue",
    "elastream-spare": "tab:purple",
    ORACLE: "tab:olive",
}
_BINS: Final = 200


def draw_elasticity(
    settings: ElasticitySettings,
    load: ReplayedLoad,
    results: Sequence[WayResult],
    known: Oracle,
    path: Path,
) -> None:
    """Draw the ways one below another, the oracle last, and their waits on a logarithmic scale."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sizes: list[WayResult | Oracle] = [*results, known]
    heights = [1.3, *(0.7 for _ in sizes), 2.4]
    figure = Figure(figsize=(10, 1.3 * sum(heights) + 1), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    _draw_load(panels[0], settings, load)
    for axes, result in zip(panels[1:-1], sizes, strict=True):
        _draw_executors(axes, settings, result)
    _draw_waits(panels[-1], results)
    panels[-1].set_xlabel("seconds since the load began")
    panels[-1].set_xlim(left=0)
    work = f"every word {settings.work} {settings.service_us:g} µs"
    figure.suptitle(f"{load.description}\n{work}", fontsize=10)
    write_picture(path, figure)


def _draw_load(axes: Axes, settings: ElasticitySettings, load: ReplayedLoad) -> None:
    rows, edges = np.histogram(load.due_ms / 1000, bins=_BINS, range=(0.0, settings.seconds))
    axes.stairs(rows / np.diff(edges), edges, fill=True, color="tab:blue", alpha=0.4)
    axes.set_ylabel("rows a\nsecond")
    _plain(axes)


def _draw_executors(axes: Axes, settings: ElasticitySettings, result: WayResult | Oracle) -> None:
    at_s, number = zip(*result.executors, strict=True)
    edges = [*at_s, max(result.took_s, at_s[-1])]
    axes.stairs(number, edges, fill=True, color=_COLOURS[result.way], alpha=0.7)
    axes.set_ylim(0, settings.max_executors + 0.2)
    axes.set_yticks([0, settings.max_executors])
    cost = f"{result.way}, executors: {result.executor_seconds:,.0f} executor-seconds"
    axes.set_title(cost, loc="left", fontsize=9, pad=2)
    _plain(axes)


def _draw_waits(axes: Axes, results: Sequence[WayResult]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    for result in results:
        label = result.way
        if result.response is not None:
            label += f" (p99 {result.response.p99 / 1000:.1f} s)"
        done_s, waited_s = zip(*result.waits, strict=True)
        axes.plot(done_s, waited_s, color=_COLOURS[result.way], linewidth=1.2, label=label)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("longest wait of\na row in a batch, s")
    axes.legend(frameon=False, fontsize=8, ncols=2)
    _plain(axes)


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
