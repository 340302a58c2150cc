"""``elastream traffic``: the traffic monitor on a log, or on packets made from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.atomic_io import replacing
from elastream.cli.exits import BROKEN
from elastream.model.errors import ProblemError
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream_lab.applications.traffic.job import TrafficJob


_SECONDS = typer.Option("--seconds", help="How long the replay takes.")
_PLAN = typer.Option("--plan", help="Place the pairs first, as `elastream plan resilient` printed.")
_OUT = typer.Option("--out", help="Write all results to this Parquet file.")


def traffic(
    input_file: Input = None,
    time_column: Time = None,
    source_column: Source = None,
    destination_column: Destination = None,
    size_column: Size = None,
    seed: Seed = 1,
    replay_s: Annotated[float, _SECONDS] = 60.0,
    substreams: Substreams = 3,
    partitions: Partitions = 1,
    executors: Executors = 2,
    service_us: ServiceUs = 0.0,
    plan: Annotated[Path | None, _PLAN] = None,
    out: Annotated[Path | None, _OUT] = None,
) -> None:
    """Count packets and their mean sizes, per second and per minute.

    Tumbling and sliding windows, by source and by source and destination, over several
    sub-streams (paper 003, section 7.3.5). All results are checked against a batch computation;
    the exit code is 0 only where they are exact and a given plan held.

      elastream traffic --seconds 60
      elastream traffic --input conn.log --time ts --source id.orig_h --destination id.resp_h
    """
    from elastream.cli.run_summaries import checked_target
    from elastream_lab.applications.traffic.job import warmed
    from elastream_lab.applications.traffic.placed_pairs import placed_pairs

    settings = TrafficSettings(
        input=input_file,
        time=time_column,
        source=source_column,
        destination=destination_column,
        size=size_column,
        seed=seed,
        replay_s=replay_s,
        substreams=substreams,
        partitions=partitions,
        executors=executors,
        service_us=service_us,
    )
    nodes = None if plan is None else _allocation(plan)
    checked_target("--out", out)
    holds = True
    with monitor_in_session(settings, keep_results=True) as (spark, monitor):
        typer.echo("warming the queries", err=True)
        with warmed(spark, monitor) as (replay, queries):
            if nodes is not None:
                with replay.fed(monitor.lead, every_s=monitor.trigger_s):
                    placed = placed_pairs(queries, nodes)
                holds = placed.holds
                typer.echo(str(placed))
            typer.echo(f"replaying for {replay_s - monitor.lead_s:.0f} s", err=True)
            replay.begin(lead_s=monitor.lead_s)
            replay.wait(lambda: replay.has_read_all)
        wrong = monitor.wrong(spark)
        _tell(spark, monitor, wrong, out)
    if wrong or not holds:
        raise typer.Exit(BROKEN)


def _allocation(plan: Path) -> list[int]:
    """Return the node of each pair from what ``elastream plan resilient`` printed."""
    from elastream.cli.problem_files import read_fields
    from elastream.model.checks import count

    nodes = read_fields(plan).get("allocation")
    if not isinstance(nodes, list) or not nodes:
        raise ProblemError("--plan", f"{plan} has no list of nodes in its field allocation")
    return [count(f"--plan: allocation[{j}]", node) for j, node in enumerate(nodes)]


def _tell(spark: SparkSession, monitor: TrafficJob, wrong: int, out: Path | None) -> None:
    from elastream_lab.applications.traffic.job import results

    report = results(spark, monitor)
    packets = sum(recording.rows for recording in monitor.recordings)
    rows = report.count()
    typer.echo(f"{packets:,} packets in {len(monitor.recordings)} sub-streams, {rows:,} results")
    if out is not None:
        from pyarrow import parquet

        with replacing(out) as temporary:
            parquet.write_table(report.toArrow(), temporary)
    verdict = "exact against a batch computation" if not wrong else f"{wrong:,} results DIFFER"
    typer.echo(verdict)
