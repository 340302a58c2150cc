"""Figure 5 of paper 004: response time, load and reconfigurations through the hour."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from elastream.atomic_io import write_picture
from elastream_lab.studies.replication.hour import Hour

_MARKS = {"scaling": ("tab:red", "^"), "migration": ("tab:orange", "o")}
_BOUND_MS = 175


def draw_hours(hours: Sequence[Hour], path: Path) -> None:
    """Draw a panel for each weighting: response time, replicas, and when something moved."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.6 * ((len(hours) + 1) // 2)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots((len(hours) + 1) // 2, 2, squeeze=False, sharex=True, sharey=True)
    for axes, each in zip(panels.flat, hours, strict=False):
        minutes = [minute.minute for minute in each.minutes]
        response = [minute.response_ms for minute in each.minutes]
        axes.plot(minutes, response, color="tab:blue", label="response time, ms")
        axes.axhline(_BOUND_MS, color="black", linewidth=0.8, linestyle=":", label="its bound")
        rates = [minute.rate for minute in each.minutes]
        axes.plot(minutes, rates, color="tab:gray", linewidth=0.8, label="source, tuples/s")
        for change, (colour, mark) in _MARKS.items():
            at = [minute for minute in each.minutes if minute.change == change]
            x, y = [minute.minute for minute in at], [minute.response_ms for minute in at]
            axes.plot(x, y, mark, color=colour, label=change)
        weights = each.weighting.weights
        axes.set_title(
            f"{each.weighting.name} (response {weights.response:g}, cost {weights.cost:g}, "
            f"downtime {weights.downtime:g})",
            fontsize=10,
        )
        axes.set_xlabel("minutes")
        replicas = axes.twinx()
        count = [minute.replicas for minute in each.minutes]
        replicas.step(minutes, count, where="post", color="tab:green", label="replicas")
        replicas.set_ylim(0, 20)
        replicas.set_ylabel("replicas", color="tab:green")
        axes.spines["top"].set_visible(False)
        replicas.spines["top"].set_visible(False)
    panels[0][0].legend(frameon=False, fontsize=8, loc="lower center", ncols=3)
    write_picture(path, figure)
