"""The figures of a study in one picture, a panel each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.studies.figure import Curves, Figure, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_figures"]

_COLUMNS = 3


def draw_figures(figures: Sequence[Figure], path: Path) -> None:
    """Draw those that have curves to a file whose ending says the format."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Picture

    drawn = [(figure, curves) for figure in figures if (curves := figure.curves) is not None]
    columns = max(1, min(_COLUMNS, len(drawn)))
    rows = max(1, -(-len(drawn) // columns))
    picture = Picture(figsize=(4.5 * columns, 3.5 * rows), layout="constrained")
    FigureCanvasAgg(picture)
    panels = picture.subplots(rows, columns, squeeze=False).ravel()
    for panel, (figure, curves) in zip(panels, drawn, strict=False):
        _panel(panel, figure, curves)
    for panel in panels[len(drawn) :]:
        panel.set_visible(False)
    picture.savefig(path, dpi=120)


def _panel(axes: Axes, figure: Figure, curves: Curves) -> None:
    lines: list[Value] = [None]
    if curves.line is not None:
        lines = list(dict.fromkeys(row[curves.line] for row in figure.rows))
    for line in lines:
        rows = [r for r in figure.rows if curves.line is None or r[curves.line] == line]
        for column in curves.y:
            label = column if line is None else f"{curves.line} {line}".removeprefix("method ")
            xs, ys = ([float(r[name] or 0.0) for r in rows] for name in (curves.x, column))
            axes.plot(xs, ys, "o-", label=label)
    axes.set_title(f"{figure.figure}: the trend {'holds' if figure.trend_holds else 'DIFFERS'}")
    axes.set_xlabel(curves.x.replace("_", " "))
    axes.set_ylabel(curves.y[0].replace("_", " ") if len(curves.y) == 1 else "")
    if "ms" in curves.y[0].split("_"):
        axes.set_yscale("log")
    axes.legend(frameon=False, fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)
