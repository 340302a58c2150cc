"""``elastream measure``: a trial run shows what pairs cost, as a problem to plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from elastream.model.checks import count
from elastream_lab.cli.traffic_settings import (
    Destination,
    Executors,
    Input,
    Partitions,
    Seed,
    ServiceUs,
    Size,
    Source,
    Substreams,
    Time,
    TrafficSettings,
    monitor_in_session,
)

_OUT = typer.Option("--out", help="The problem file to write.")
_BATCHES = typer.Option("--batches", help="Measure over this many batches of each query.")
_LOWER_BOUND = typer.Option(
    "--lower-bound", help="Take the least rates seen for what rates never fall below."
)
_APP = typer.Argument(
    metavar="APP", help="A program, a Python file, whose queries to measure; left out: the monitor."
)
_ARGUMENTS = typer.Argument(metavar="ARGUMENTS", help="The program's own, after --.")
_SKIPPED = 2
_SECONDS_A_BATCH = 10.0
"""Packets for so long: batches are triggered every second, but a slow machine takes longer."""


def measure(
    out: Annotated[Path, _OUT],
    app: Annotated[str | None, _APP] = None,
    arguments: Annotated[list[str] | None, _ARGUMENTS] = None,
    input_file: Input = None,
    time_column: Time = None,
    source_column: Source = None,
    destination_column: Destination = None,
    size_column: Size = None,
    seed: Seed = 1,
    batches: Annotated[int, _BATCHES] = 20,
    lower_bound: Annotated[bool, _LOWER_BOUND] = False,
    substreams: Substreams = 3,
    partitions: Partitions = 1,
    executors: Executors = 2,
    service_us: ServiceUs = 0.0,
) -> Callable[[], int] | None:
    """Measure what each task of a program's queries costs.

    A task is a state partition of an operator of a query.

    Runs the program, as `elastream run --measure` does, or the queries of `elastream traffic` where
    none is given, and writes what every pair costs (seconds of executor run time for a row, and at
    any rates) and puts out as a problem of resilient placement. For queries that run already there
    is elastream.resilience.measure(queries) in Python.

      elastream measure --out problem.json --executors 2 app.py
      elastream measure --out problem.json -- app.py --its arguments
      elastream measure --out problem.json
      elastream plan resilient problem.json > plan.json
      elastream traffic --plan plan.json
    """
    from elastream.cli.run_summaries import checked_target, write_summary
    from elastream.resilience.spark.measure import measure as measured_by
    from elastream_lab.applications.traffic.job import warmed

    count("--batches", batches, least=1, most=1000)
    if app is not None:
        return _measured_program(app, arguments or [], out, batches, lower_bound, executors)
    settings = TrafficSettings(
        input=input_file,
        time=time_column,
        source=source_column,
        destination=destination_column,
        size=size_column,
        seed=seed,
        replay_s=min(3600.0, max(30.0, _SECONDS_A_BATCH * (batches + _SKIPPED))),
        substreams=substreams,
        partitions=partitions,
        executors=executors,
        service_us=service_us,
    )
    checked_target("--out", out)
    with monitor_in_session(settings, keep_results=False) as (spark, monitor):
        typer.echo("warming the queries", err=True)
        with warmed(spark, monitor) as (replay, queries):
            replay.begin(lead_s=monitor.lead_s)
            typer.echo(f"measuring {batches} batches of {len(queries)} queries", err=True)
            found = measured_by(
                queries,
                batches=batches,
                skip=_SKIPPED,
                timeout_s=60.0 + settings.replay_s,
            )
    write_summary(out, found.fields(lower_bound=lower_bound))
    rates = ", ".join(
        f"{stream} {rate:.0f}/s"
        for stream, rate in zip(found.graph.inputs, found.rates, strict=True)
    )
    pairs, nodes = len(found.graph.operators), len(found.capacity)
    typer.echo(f"{out}: {pairs} pairs on {nodes} executors; packets seen: {rates}")
    return None


def _measured_program(
    app: str, arguments: list[str], out: Path, batches: int, lower_bound: bool, executors: int
) -> Callable[[], int]:
    """Return what runs somebody's program and measures its queries."""
    from elastream.cli.run_summaries import checked_target
    from elastream.core.policy import Policy
    from elastream.extras import expect_installed
    from elastream.launch.program import Program
    from elastream.launch.settings import RunSettings
    from elastream.resilience.spark.trial import ProgramTrial, run_measured

    program = Program(app, tuple(arguments))
    settings = RunSettings(Policy(min_executors=executors, max_executors=executors))
    checked_target("--out", out)
    expect_installed("pyspark")
    trial = ProgramTrial(out.absolute(), batches, lower_bound)
    return lambda: run_measured(program, settings, trial)
