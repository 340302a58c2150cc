"""Samples as a table with a verdict, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.atomic_io import write_picture
from elastream_lab.studies.figure import Figure
from elastream_lab.studies.soak.flatness import trend_of
from elastream_lab.studies.soak.measures import Sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_COLUMNS: Final = 4
_DIGITS: Final = 4
_LONG_H: Final = 48.0


def figure_of(name: str, samples: Sequence[Sample], *, exact: str | None = None) -> Figure:
    """Return the measures of a run and whether each is flat.

    ``exact`` is what was wrong about the answers, where they were looked at; empty for nothing.
    """
    at = [sample.stream_h for sample in samples]
    rows = []
    for measure in samples[0].measures:
        trend = trend_of(at, [sample.measures[measure] for sample in samples])
        figures = (trend.first, trend.middle, trend.last, trend.growth, trend.noise)
        first, middle, last, growth, noise = (round(value, _DIGITS) for value in figures)
        rows.append(
            {
                "measure": measure,
                "first": first,
                "middle": middle,
                "last": last,
                "growth_of_second_half": growth,
                "may_grow": noise,
                "flat": trend.flat,
            }
        )
    growing = [str(row["measure"]) for row in rows if not row["flat"]]
    says = f"growing: {', '.join(growing)}" if growing else "All of them are flat"
    answers = {None: "", "": " The answers are exact."}.get(exact, f" WRONG ANSWERS: {exact}.")
    last_sample = samples[-1]
    return Figure(
        figure=name,
        data=f"{last_sample.stream_h:.0f} hours of stream time, {last_sample.changes} changes, "
        f"{len(samples)} samples",
        rows=rows,
        curves=None,
        trend_holds=not growing and not exact,
        says=f"{says}.{answers}",
    )


def as_json(samples: Sequence[Sample]) -> list[dict[str, object]]:
    """Return the samples for a file."""
    return [
        {"stream_h": sample.stream_h, "changes": sample.changes, **sample.measures}
        for sample in samples
    ]


def draw(runs: Sequence[tuple[str, Sequence[Sample]]], path: Path) -> None:
    """Draw every measure of every run against stream time, a panel each."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Picture

    panels = [(name, samples, each) for name, samples in runs for each in samples[0].measures]
    rows = -(-len(panels) // _COLUMNS)
    picture = Picture(figsize=(3.4 * _COLUMNS, 2.3 * rows), layout="constrained")
    FigureCanvasAgg(picture)
    axes = picture.subplots(rows, _COLUMNS, squeeze=False).ravel()
    for panel, (name, samples, measure) in zip(axes, panels, strict=False):
        _panel(panel, name, samples, measure)
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    write_picture(path, picture)


def _panel(axes: Axes, name: str, samples: Sequence[Sample], measure: str) -> None:
    long = samples[-1].stream_h > _LONG_H
    xs = [sample.stream_h / 24 if long else sample.stream_h for sample in samples]
    ys = [sample.measures[measure] for sample in samples]
    flat = trend_of(xs, ys).flat
    axes.plot(xs, ys, "-", linewidth=1.2, color="C0" if flat else "C3")
    axes.axvspan(xs[len(xs) // 2], xs[-1], color="0.93")
    axes.set_ylim(0, 1.25 * max(*ys, 1e-9))
    verdict = "flat" if flat else "GROWS"
    axes.set_title(f"{name}\n{measure}: {verdict}", fontsize=8)
    axes.set_xlabel(f"{'days' if long else 'hours'} of stream time", fontsize=7)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
