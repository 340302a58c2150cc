"""The migration benchmark as figure 15 of paper 000: response time around a migration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from elastream.studies.migration_bench import BenchResult

__all__ = ["draw_figure"]

_COLOURS = {
    "stock": "tab:gray",
    "live": "tab:green",
    "live-cold": "tab:olive",
    "all-at-once": "tab:cyan",
    "progressive": "tab:blue",
    "pause": "tab:orange",
    "restart": "tab:red",
}
_TITLES = {"out": "an executor is added", "in": "an executor is taken away"}


def draw_figure(results: Sequence[BenchResult], path: Path) -> None:
    """Draw the mean response time of each batch, a panel for each direction and state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    states = list(dict.fromkeys(result.state for result in results))
    figure = Figure(figsize=(11, 3.8 * max(1, len(states))), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(max(1, len(states)), 2, squeeze=False, sharey=True)
    for row, state in zip(panels, states, strict=False):
        for axes, direction in zip(row, ("out", "in"), strict=True):
            for result in results:
                if result.state == state and result.change.direction == direction:
                    mechanism = result.change.mechanism
                    at_s, response_s = zip(*result.series, strict=True)
                    colour = _COLOURS[mechanism]
                    axes.plot(at_s, response_s, marker=".", color=colour, label=mechanism)
            axes.axvline(0, color="black", linewidth=0.8, linestyle=":")
            axes.set_yscale("log")
            axes.set_title(f"{state} state: {_TITLES[direction]}")
            axes.set_xlabel("seconds since it was asked for")
            axes.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel("mean response time of a batch, s")
    panels[0][1].legend(frameon=False, loc="upper right")
    figure.savefig(path, dpi=120)
