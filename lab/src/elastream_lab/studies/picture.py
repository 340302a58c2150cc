"""The figures of a study in one picture, a panel each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from elastream.atomic_io import write_picture
from elastream_lab.studies.figure import Curves, Figure, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_COLUMNS = 3
_TITLE = 60
"""Characters of a line above a panel."""
_FEW_LINES = 6
"""The names of more lines than these would hide them; they stand below the panel."""
_NAMED = ("method", "planner", "load", "chain")
"""Columns whose values say themselves what they are."""


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
    write_picture(path, picture)


def _panel(axes: Axes, figure: Figure, curves: Curves) -> None:
    lines: list[Value] = [None]
    if curves.line is not None:
        lines = list(dict.fromkeys(row[curves.line] for row in figure.rows))
    for line in lines:
        rows = [r for r in figure.rows if curves.line is None or r[curves.line] == line]
        for column in curves.y:
            label = column if line is None else _label(curves.line, line)
            xs, ys = ([float(r[name] or 0.0) for r in rows] for name in (curves.x, column))
            axes.plot(xs, ys, "o-", label=label)
    verdict = f"the trend {'holds' if figure.trend_holds else 'DIFFERS'}"
    data = shorten(figure.data, _TITLE, placeholder=" …")
    axes.set_title(f"{figure.figure}: {verdict}\n{data}", fontsize=9)
    axes.set_xlabel(curves.x.replace("_", " "))
    axes.set_ylabel(curves.y[0].replace("_", " ") if len(curves.y) == 1 else "")
    if curves.log or "ms" in curves.y[0].split("_"):
        axes.set_yscale("log")
    if len(axes.lines) > _FEW_LINES:
        axes.legend(
            frameon=False, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2
        )
    else:
        axes.legend(frameon=False, fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _label(column: str | None, value: Value) -> str:
    return str(value) if column in _NAMED else f"{column} {value}"
