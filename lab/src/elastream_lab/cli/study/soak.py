"""``elastream study soak``: whether anything grows in a day on executors or a simulated month."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elastream_lab.studies.soak.measures import Sample


_DAYS = typer.Option("--days", help="Days on the simulated cluster; 0: none.")
_MINUTES = typer.Option("--live-minutes", help="Minutes on live executors; 0: none.")
_JSON = typer.Option("--json", help="Write the figures and all samples as JSON.")
_PICTURE = typer.Option("--picture", help="Draw the samples: .png, .svg or .pdf.")


def soak(
    days: Annotated[float, _DAYS] = 30.0,
    live_minutes: Annotated[float, _MINUTES] = 15.0,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """Run for long, and see whether anything grows.

    Memory, threads, listeners, log, scratch folders.

    A month of three queries on a simulated cluster, with waves of load and an executor that dies
    every day; and a query on live executors whose batches are a minute of stream time each, while
    one change follows another, up to a day. Flat is what rises over the second half of the samples
    by no more than noise. The exit code is 0 only where all is flat and the answers are exact.
    Takes some minutes for the month, and as long as you say for the day.

      elastream study soak --days 30 --live-minutes 15 --json soak.json --picture soak.png
    """
    from rich.console import Console

    from elastream.cli.exits import BROKEN
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.cli.run_summaries import checked_picture, checked_target, write_summary
    from elastream.model.checks import non_negative
    from elastream.model.errors import ProblemError
    from elastream_lab.cli.study.output import show
    from elastream_lab.studies.soak.figures import as_json, draw, figure_of
    from elastream_lab.studies.soak.live import live_day
    from elastream_lab.studies.soak.simulated import LEAST_DAYS, month

    if 0 < non_negative("days", days) < LEAST_DAYS:
        raise ProblemError("days", f"{days:g} is too few to tell; take {LEAST_DAYS:g} or more")
    non_negative("live_minutes", live_minutes)
    if not days and not live_minutes:
        raise ProblemError("days", "or `live_minutes` must be more than 0")
    checked_target("--json", json_file)
    checked_picture("--picture", picture)
    console, runs, reports, flat = Console(), [], [], True

    def done(name: str, samples: Sequence[Sample], exact: str | None) -> None:
        nonlocal flat
        figure = figure_of(name, samples, exact=exact)
        show(console, figure)
        runs.append((name, samples))
        reports.append({**figure.as_json("soak"), "samples": as_json(samples)})
        flat = flat and figure.trend_holds

    with ended_like_by_ctrl_c(), java_kept_quiet():
        if days:
            done("simulated", list(month(days)), None)
        if live_minutes:
            day = live_day(live_minutes)
            done("live", day.samples, day.wrong)
    write_summary(json_file, reports)
    if picture is not None:
        draw(runs, picture)
    if not flat:
        raise typer.Exit(BROKEN)
