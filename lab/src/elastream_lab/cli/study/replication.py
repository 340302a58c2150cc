"""``elastream study replication``: the experiments of paper 004, section 7."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.model.errors import ProblemError

if TYPE_CHECKING:
    from rich.console import Console

    from elastream_lab.applications.taxi.run import TaxiSettings
    from elastream_lab.studies.figure import Figure
    from elastream_lab.studies.replication.hour import Hour
    from elastream_lab.studies.replication.table_five import SparkWeighting


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
_SECONDS = typer.Option("--seconds", min=20, help="With --on-spark or --hosts: length of a run.")
_REPEATS = typer.Option(
    "--repeats", help="With --on-spark or --hosts: how often all is run, the spread is reported."
)
_WEIGHTINGS = typer.Option(
    "--weightings", help="With --on-spark: some of baseline,balanced,response time,cost."
)
_INPUT = typer.Option(
    "--input",
    help="Of the hour: a load, times and counts in the first two columns; with --on-spark: trips "
    "in the 17 columns of DEBS 2015. Left out: made.",
)
_SINCE = typer.Option(
    "--since", help="With --on-spark and --input: only trips that ended from then on."
)
_UNTIL = typer.Option(
    "--until", help="With --on-spark and --input: only trips that ended before then."
)
_SERVICE = typer.Option(
    "--service-us", help="With --on-spark: microseconds that a trip costs, slept."
)
_HOSTS = typer.Option(
    "--hosts",
    help="In place of these: four hosts of this machine, two at either of two sites; root.",
)
_MEASURED = typer.Option(
    "--measured",
    help="With --on-spark: what an earlier run wrote with --json, run alike: taken in; given "
    "again: more.",
)
_DELAY = typer.Option("--delay-ms", help="With --hosts: between the sites, one way.")
_SIZES = (8, 12, 16, 20, 24)
_DEGREES = (2, 3, 4)
_MOST_VARIABLES = 120_000
"""Larger programs take HiGHS minutes to hours and gigabytes; they are not tried."""


def replication(
    input: Annotated[Path | None, _INPUT] = None,  # noqa: A002 - the option's name
    part: Annotated[Part, _PART] = Part.ALL,
    minutes: Annotated[int, _MINUTES] = 60,
    milp_seconds: Annotated[float, _MILP] = 60.0,
    on_spark: Annotated[bool, _ON_SPARK] = False,
    seconds: Annotated[float, _SECONDS] = 60.0,
    repeats: Annotated[int, _REPEATS] = 1,
    weightings: Annotated[str, _WEIGHTINGS] = "",
    since: Annotated[str | None, _SINCE] = None,
    until: Annotated[str | None, _UNTIL] = None,
    service_us: Annotated[float, _SERVICE] = 30_000.0,
    hosts: Annotated[bool, _HOSTS] = False,
    delay_ms: Annotated[float, _DELAY] = 100.0,
    measured: Annotated[list[Path] | None, _MEASURED] = None,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """Replicas and places in an hour of load (paper 004).

    Solving times too, as in section 7.

    The hour takes half a minute. Table IV takes minutes, nearly all for the generic integer
    program: --milp-seconds 0 leaves that out. --on-spark runs the taxi query with the loop: four
    runs of a minute and some each. --hosts runs it across hosts that are network namespaces, with
    the delays between them unknown to the plan and known.

      elastream study replication --part hour --picture hour.png
      elastream study replication --part hour --input requests.csv.gz
      elastream study replication --on-spark --picture figure-6.png
      elastream study replication --on-spark --seconds 600 --json first.json
      elastream study replication --on-spark --seconds 600 --measured first.json --json both.json
      elastream study replication --on-spark --seconds 600 --repeats 3 --input trips.csv.gz
    """
    from rich.console import Console

    from elastream.cli.run_summaries import checked_picture, checked_target
    from elastream.model.checks import count
    from elastream_lab.applications.taxi.recorded_trips import TimeSlice
    from elastream_lab.cli.study.output import written
    from elastream_lab.studies.look_ahead.series import read_series
    from elastream_lab.studies.replication.hour import rates_of
    from elastream_lab.studies.replication.on_spark import chosen_runs, study_settings

    checked_picture("--picture", picture)
    checked_target("--json", json_file)
    console = Console()
    if input is not None and part is Part.SCALE and not on_spark:
        raise ProblemError("--input", "is a load of the hour; table IV has none")
    if hosts:
        _across_hosts(console, json_file, seconds, delay_ms, repeats)
        return
    if on_spark:
        settings = study_settings(
            seconds,
            trips=input,
            part=TimeSlice(since, until),
            service_us=service_us,
        )
        runs = chosen_runs(_listed(weightings))
        count("repeats", repeats, least=1)
        _on_spark(console, json_file, picture, settings, runs, repeats, measured or ())
        return
    rates = None if input is None else rates_of(read_series(input), minutes)
    with written("replication", json_file) as figures:
        if part is not Part.SCALE:
            _hours(console, figures, picture, minutes, rates, None if input is None else input.name)
        if part is not Part.HOUR:
            _scale(console, figures, milp_seconds)


def _hours(
    console: Console,
    figures: list[Figure],
    picture: Path | None,
    minutes: int,
    rates: Sequence[float] | None,
    load: str | None,
) -> None:
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
        hours.append(hour(weighting, compared=True, minutes=minutes, rates=rates))
        alone.append(hour(weighting, restricted=True, minutes=minutes, rates=rates))
    figures.append(table_three(hours, load))
    show(console, figures[-1], leave_out=("minutes",))
    figures.append(restricted_figure(hours, alone, load))
    show(console, figures[-1])
    if picture is not None:
        from elastream_lab.studies.replication.picture import draw_hours

        draw_hours(hours, picture)


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _on_spark(
    console: Console,
    json_file: Path | None,
    picture: Path | None,
    settings: TaxiSettings,
    runs: Sequence[SparkWeighting],
    repeats: int,
    measured: Sequence[Path],
) -> None:
    """Run one after the other; what is done is drawn of a study that is ended too."""
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream_lab.applications.taxi.run import cluster_of
    from elastream_lab.cli.study.output import kept, show, written
    from elastream_lab.harness.job_session import job_session
    from elastream_lab.studies.replication.on_spark import how_run, outcomes
    from elastream_lab.studies.replication.on_spark_picture import draw_runs
    from elastream_lab.studies.replication.table_five import earlier_outcomes, table_five

    how = how_run(settings)
    earlier = earlier_outcomes(measured, how, settings.replay_s)
    done = list(earlier)
    began = time.monotonic()
    with written("replication", json_file) as figures:
        tell = kept("replication", json_file, lambda: tuple(figures))

        def say(line: str) -> None:
            tell(f"{time.monotonic() - began:5.0f} s  {line}")

        session = job_session(cluster_of(settings))
        try:
            with ended_like_by_ctrl_c(), java_kept_quiet(), session as spark:
                for each in outcomes(
                    spark, settings, say=say, runs=runs, repeats=repeats, earlier=earlier
                ):
                    done.append(each)
                    figures[:] = [table_five(done, how)]
        finally:
            if picture is not None and done:
                draw_runs(done, picture)
        aside = ("moments", "changes_s", "p99_ms", "paper_response_ms", "paper_cost")
        show(console, figures[-1], leave_out=aside)


def _across_hosts(
    console: Console, json_file: Path | None, seconds: float, delay_ms: float, repeats: int
) -> None:
    from elastream.cli.quiet import ended_like_by_ctrl_c
    from elastream.model.errors import ProblemError
    from elastream_lab.cli.study.output import show, written
    from elastream_lab.hosts.namespaces import why_not
    from elastream_lab.studies.replication.hosts import HostStudy, hosts_figure

    study = HostStudy(delay_ms, seconds, repeats)
    if (why := why_not()) is not None:
        raise ProblemError("--hosts", f"none can be made here: {why}")
    with written("replication", json_file) as figures, ended_like_by_ctrl_c():
        figures.append(hosts_figure(study, lambda line: console.print(line, highlight=False)))
        show(console, figures[-1], leave_out=("plans",))


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
