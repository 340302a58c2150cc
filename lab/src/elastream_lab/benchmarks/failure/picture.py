"""The failure benchmark as a picture: response time around the kill of an executor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from elastream.atomic_io import write_picture
from elastream_lab.benchmarks.failure.loss import LossResult

_COLOURS = {"stock": "tab:gray", "elastream": "tab:green", "standbys": "tab:purple"}


def draw_losses(results: Sequence[LossResult], path: Path) -> None:
    """Draw the mean response time of each batch, a panel for each state, a line for each run."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    states = list(dict.fromkeys(result.state for result in results))
    figure = Figure(figsize=(9, 3.8 * max(1, len(states))), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(max(1, len(states)), 1, squeeze=False)[:, 0]
    for axes, state in zip(panels, states, strict=False):
        named: set[str] = set()
        for result in (result for result in results if result.state == state):
            name = None if result.way in named else result.way
            named.add(result.way)
            colour = _COLOURS[result.way]
            axes.plot(*zip(*result.series, strict=True), ".-", color=colour, lw=1, label=name)
        axes.axvline(0, color="black", linewidth=0.8, linestyle=":")
        axes.set_title(f"{state} state: an executor is killed")
        axes.set_xlabel("seconds since the kill")
        axes.set_ylabel("mean response time of a batch, s")
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    write_picture(path, figure)
