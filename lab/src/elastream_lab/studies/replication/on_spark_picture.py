"""Figure 6 of paper 004 on Spark: response time, load and replicas through each run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from elastream.atomic_io import write_picture
from elastream_lab.studies.replication.table_five import Outcome

_COLUMNS = 2


def draw_runs(runs: Sequence[Outcome], path: Path) -> None:
    """Draw a panel for each run: response time, replicas, rate, and when something moved."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = (len(runs) + _COLUMNS - 1) // _COLUMNS
    figure = Figure(figsize=(11, 3.2 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, _COLUMNS, squeeze=False, sharex=True, sharey=True)
    for axes, each in zip(panels.flat, runs, strict=False):
        at = [moment.at_s for moment in each.moments]
        response = [moment.response_ms / 1000 for moment in each.moments]
        axes.plot(at, response, color="tab:blue", label="response time, s")
        rate = [moment.rows_per_s / 10 for moment in each.moments]
        axes.plot(at, rate, color="tab:gray", linewidth=0.8, label="rate, 10 trips/s")
        for number, moment in enumerate(each.changes_s):
            name = "reconfiguration" if number == 0 else "_"
            axes.axvline(moment, color="tab:red", linewidth=0.8, linestyle=":", label=name)
        title = f"{each.weighting.name}: {each.downtime_percent:.1f} % downtime"
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("seconds")
        replicas = axes.twinx()
        held = [moment.replicas for moment in each.moments]
        replicas.step(at, held, where="post", color="tab:green")
        replicas.set_ylim(0, 12)
        replicas.set_ylabel("replicas", color="tab:green")
        axes.spines["top"].set_visible(False)
        replicas.spines["top"].set_visible(False)
    panels[0][0].legend(frameon=False, fontsize=8, loc="upper left")
    for axes in panels.flat[len(runs) :]:
        axes.set_visible(False)
    write_picture(path, figure)
