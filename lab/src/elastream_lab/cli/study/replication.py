"""``elastream study replication``: the experiments of paper 004, section 7."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from elastream_lab.studies.figure import Figure
    from elastream_lab.studies.replication.hour import Hour

__all__ = ["replication"]


class Part(StrEnum):
    """What to make."""

    HOUR = "hour"
    SCALE = "scale"
    ALL = "all"


_PART = typer.Option("--part", help="hour: table III, figure 5, rEDRP; scale: table IV.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")
_PICTURE = typer.Option("--picture", help="Draw figure 5: .png, .svg or .pdf.")
_MINUTES = typer.Option(
    "--minutes", min=2, help="Decisions in the hour; the paper takes one a minute."
)
_MILP = typer.Option(
    "--milp-seconds", min=0, help="Time of the generic program for a cell of table IV; 0: none."
)
_ON_SPARK = typer.Option(
    "--on-spark", help="Table V and figure 6 in place of these, on executors of this machine."
)
_SECONDS = typer.Option("--seconds", min=20, help="With --on-spark: length of each of six runs.")
_SIZES = (8, 12, 16, 20, 24)
_DEGREES = (2, 3, 4)
_MOST_VARIABLES = 120_000
"""Larger programs take HiGHS minutes to hours and gigabytes; they are not tried."""


def replication(
    part: Annotated[Part, _PART] = Part.ALL,
    minutes: Annotated[int, _MINUTES] = 60,
    milp_seconds: Annotated[float, _MILP] = 60.0,
    on_spark: Annotated[bool, _ON_SPARK] = False,
    seconds: Annotated[float, _SECONDS] = 60.0,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """Replicas and places through an hour of changing load, and solving times (paper 004, 7).

    The hour takes some minutes, table IV as well; --milp-seconds 0 leaves the generic integer
    program out. --on-spark runs the taxi query with the loop, live and
    by pause-and-resume: six runs of a minute and some each.

      elastream study replication --part hour --picture hour.png
      elastream study replication --on-spark --picture figure-6.png
    """
    from rich.console import Console

    from elastream.cli.run_summaries import checked_picture, checked_target
    from elastream_lab.cli.study.output import written

    checked_picture("--picture", picture)
    checked_target("--json", json_file)
    console = Console()
    with written("replication", json_file) as figures:
        if on_spark:
            _on_spark(console, figures, picture, seconds)
            return
        if part is not Part.SCALE:
            _hours(console, figures, picture, minutes)
        if part is not Part.HOUR:
            _scale(console, figures, milp_seconds)


def _hours(console: Console, figures: list[Figure], picture: Path | None, minutes: int) -> None:
    from elastream_lab.cli.study.output import show
    from elastream_lab.studies.replication.hour import (
        WEIGHTINGS,
        hour,
        restricted_figure,
        table_three,
    )

    hours: list[Hour] = []
    alone: list[Hour] = []
    for weighting in WEIGHTINGS:
        console.print(f"an hour, weighting {weighting.name} ...", highlight=False)
        hours.append(hour(weighting, compared=True, minutes=minutes))
        alone.append(hour(weighting, restricted=True, minutes=minutes))
    figures.append(table_three(hours))
    show(console, figures[-1], leave_out=("minutes",))
    figures.append(restricted_figure(hours, alone))
    show(console, figures[-1])
    if picture is not None:
        from elastream_lab.studies.replication.picture import draw_hours

        draw_hours(hours, picture)


def _on_spark(
    console: Console, figures: list[Figure], picture: Path | None, seconds: float
) -> None:
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.harness.job_session import job_session
    from elastream_lab.applications.taxi.run import cluster_of
    from elastream_lab.cli.study.output import show
    from elastream_lab.studies.replication.on_spark import outcomes, study_settings, table_five

    settings = study_settings(seconds)
    began = time.monotonic()

    def say(line: str) -> None:
        console.print(f"{time.monotonic() - began:5.0f} s  {line}", highlight=False)

    with ended_like_by_ctrl_c(), java_kept_quiet(), job_session(cluster_of(settings)) as spark:
        done = list(outcomes(spark, settings, say=say))
    figures.append(table_five(done, settings))
    aside = ("moments", "changes_s", "p99_ms", "paper_response_ms", "paper_cost")
    show(console, figures[-1], leave_out=aside)
    if picture is not None:
        from elastream_lab.studies.replication.on_spark_picture import draw_runs

        draw_runs(done, picture)


def _scale(console: Console, figures: list[Figure], milp_seconds: float) -> None:
    from elastream_lab.cli.study.output import show
    from elastream_lab.studies.replication.scale import table_four, table_four_cells

    cells = []
    for cell in table_four_cells(
        sizes=_SIZES,
        degrees=_DEGREES,
        milp_limit_s=milp_seconds,
        milp_most_variables=_MOST_VARIABLES,
        clock=time.perf_counter,
    ):
        cells.append(cell)
        about = f"{cell.nodes} nodes, k = {cell.max_replicas}, {cell.problem}"
        console.print(f"{about}: {cell.seconds:.2f} s", highlight=False)
    figures.append(table_four(cells, milp_seconds))
    show(console, figures[-1], leave_out=("objective",))
