"""``elastream bench elasticity``: the same load under every way to size an application."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from elastream.cli.exits import BROKEN

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from elastream_lab.benchmarks.elasticity.oracle import Oracle
    from elastream_lab.benchmarks.elasticity.run import Progress, WayResult


_TABLE_WIDTH: Final = 120
"""What the table needs, also where the output is not a terminal."""
_LINE_EVERY_S: Final = 30.0
_LOAD = typer.Option(
    "--load",
    help="A CSV, JSON-lines or Parquet file with a column of times and one of counts, maybe + .gz. "
    "Left out: a made day with bursts.",
)
_FROM = typer.Option(
    "--from", help="When the hours of the load begin, as 1998-06-30T12:00. Left out: the busiest."
)
_HOURS = typer.Option("--hours", help="How many hours of the load. Left out: 24.")
_SECONDS = typer.Option("--seconds", help="What they are compressed to; the shape stays.")
_WAYS = typer.Option(
    "--ways",
    help="Which ones, with commas between: fixed-min, fixed-max, spark-dynamic, elastream, "
    "elastream-ahead, elastream-spare. Left out: all.",
)
_PEAK = typer.Option(
    "--peak-rows-per-s",
    help="Rate at the busiest moment. Left out: such that its words take --peak-utilisation of the "
    "time of --max-executors.",
)
_SERVICE = typer.Option("--service-us", help="Microseconds a word costs, where its state is.")
_WORK = typer.Option(
    "--work", help="Whether that is slept or burnt; burnt needs a core for each executor."
)
_BACKLOG = typer.Option(
    "--backlog-timeout-s", help="spark-dynamic: how long tasks wait before executors are asked for."
)
_IDLE = typer.Option(
    "--idle-timeout-s", help="spark-dynamic: how long an executor does nothing before it goes."
)
_AHEAD = typer.Option("--look-ahead-s", help="elastream-ahead: how far it looks.")
_SEED = typer.Option("--seed", help="Of the posts, and of the made day.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")
_PICTURE = typer.Option("--picture", help="Draw load, executors and waits: .png, .svg or .pdf.")


def elasticity(
    load: Annotated[Path | None, _LOAD] = None,
    begin: Annotated[str | None, _FROM] = None,
    hours: Annotated[float | None, _HOURS] = None,
    seconds: Annotated[float, _SECONDS] = 600.0,
    ways: Annotated[str | None, _WAYS] = None,
    min_executors: Annotated[int, typer.Option("--min-executors")] = 1,
    max_executors: Annotated[int, typer.Option("--max-executors")] = 4,
    peak_utilisation: Annotated[float, typer.Option("--peak-utilisation")] = 0.5,
    peak_rows_per_s: Annotated[float | None, _PEAK] = None,
    service_us: Annotated[float, _SERVICE] = 1000.0,
    work: Annotated[str, _WORK] = "slept",
    trigger_s: Annotated[float, typer.Option("--trigger-s")] = 2.0,
    partitions: Annotated[int, typer.Option("--partitions")] = 8,
    backlog_timeout_s: Annotated[int, _BACKLOG] = 2,
    idle_timeout_s: Annotated[int, _IDLE] = 10,
    look_ahead_s: Annotated[float, _AHEAD] = 20.0,
    seed: Annotated[int, _SEED] = 1,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """Compare executor-seconds and waits of a load by way of sizing.

    The same posts, at times that follow the load, are counted with few executors, with many, under
    Spark's own dynamic allocation and under elastream, and every word's count is checked at the
    end. The exit code is 0 only where all ways ended and were exact. A way takes --seconds, a
    minute more to start and end, and longer where it falls behind. The last row, oracle, is not
    run: it is the least that a planner that knows the load could pay, by a model.

      elastream bench elasticity --json elasticity.json --picture elasticity.png
      elastream bench elasticity --load visits.csv.gz --from 1998-06-30 --ways fixed-max,elastream
    """
    from rich.console import Console

    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet, line_of_failure
    from elastream.cli.run_summaries import checked_picture, checked_target, write_summary
    from elastream_lab.benchmarks.elasticity.oracle import oracle
    from elastream_lab.benchmarks.elasticity.picture import draw_elasticity
    from elastream_lab.benchmarks.elasticity.run import replayed_load, run_ways
    from elastream_lab.benchmarks.elasticity.settings import WAYS, ElasticitySettings

    settings = ElasticitySettings(
        load=load,
        begin=begin,
        hours=hours,
        seconds=seconds,
        ways=WAYS if ways is None else tuple(way.strip() for way in ways.split(",")),
        min_executors=min_executors,
        max_executors=max_executors,
        peak_utilisation=peak_utilisation,
        peak_rows_per_s=peak_rows_per_s,
        service_us=service_us,
        work=work,
        trigger_s=trigger_s,
        partitions=partitions,
        backlog_timeout_s=backlog_timeout_s,
        idle_timeout_s=idle_timeout_s,
        look_ahead_s=look_ahead_s,
        seed=seed,
    )
    checked_picture("--picture", picture)
    checked_target("--json", json_file)
    replayed = replayed_load(settings)
    known = oracle(settings, replayed)
    console = Console()
    results: list[WayResult] = []
    errors: list[str] = []

    def report() -> dict[str, object]:
        summary = {
            "load": replayed.description,
            "seconds": settings.seconds,
            "made": replayed.made,
            "settings": settings.as_json(),
            "runs": [result.as_json() for result in results],
            "oracle": known.as_json(),
        }
        return {**summary, "error": "; ".join(errors)} if errors else summary

    console.print(f"the load: {replayed.description}, in {settings.seconds:g} s", highlight=False)
    try:
        with ended_like_by_ctrl_c(), java_kept_quiet(), _watched(console) as (say, show):

            def failed(way: str, error: Exception) -> None:
                errors.append(f"{way}: {line_of_failure(error)}")
                say(errors[-1])

            run_ways(settings, replayed, say=say, show=show, done=results.append, failed=failed)
    except BaseException as error:
        errors.append(line_of_failure(error))
        write_summary(json_file, report())
        raise
    Console(width=max(console.width, _TABLE_WIDTH)).print(table(results, known))
    console.print(
        f"every word {settings.work} {settings.service_us:g} µs where its state is, as a stand-in "
        f"for work; {settings.peak:,.0f} posts a second at the busiest moment",
        style="dim",
        highlight=False,
    )
    for error_line in errors:
        console.print(error_line, style="red")
    write_summary(json_file, report())
    if picture is not None and results:
        draw_elasticity(settings, replayed, results, known, picture)
    if errors or not all(result.exact for result in results):
        raise typer.Exit(BROKEN)


@contextmanager
def _watched(
    console: Console,
) -> Iterator[tuple[Callable[[str], None], Callable[[Progress], None]]]:
    """Give what shows a line, and what shows how far a way is: in place where that is possible."""
    began, last = time.monotonic(), [0.0]

    def say(line: str) -> None:
        console.print(f"{time.monotonic() - began:5.0f} s  {line}", highlight=False)

    def show(progress: Progress) -> None:
        if time.monotonic() - last[0] > _LINE_EVERY_S:
            last[0] = time.monotonic()
            say(_line(progress))

    if not console.is_terminal:
        yield say, show
        return
    with console.status("starting") as status:
        yield say, lambda progress: status.update(_line(progress))


def _line(progress: Progress) -> str:
    done = f"{progress.rows_done:,} of {progress.rows:,} posts after {progress.at_s:.0f} s"
    return f"{progress.way}: {done}, {progress.executors} executors"


def table(results: Sequence[WayResult], known: Oracle) -> Table:
    """Return a table: a row for each way, compared with the most executors where known."""
    from rich.table import Table

    made = Table(title="times in seconds; wait: from a row's being due to its result")
    made.add_column("way")
    for name in (
        "executor-\nseconds",
        "of\nfixed-max",
        "wait\nmedian",
        "p99",
        "worst",
        "p99 of\nfixed-max",
        "overloaded",
        "changes",
        "MB\nmoved",
        "exact",
    ):
        made.add_column(name, justify="right")
    most = next((result for result in results if result.way == "fixed-max"), None)
    for result in results:
        made.add_row(*_cells(result, most), *_cells_of_run(result))
    made.add_row(*_cells(known, most), "-", str(known.changes), "-", "model")
    return made


def _cells(result: WayResult | Oracle, most: WayResult | None) -> tuple[str, ...]:
    waits, of_most = result.response, None if most is None else most.response
    cost = None if most is None else result.executor_seconds / most.executor_seconds
    p99 = None if waits is None or of_most is None else waits.p99 / of_most.p99
    times = ["-"] * 3
    if waits is not None:
        times = [f"{ms / 1000:.2f}" for ms in (waits.median, waits.p99, waits.worst)]
    return (
        result.way,
        f"{result.executor_seconds:,.0f}",
        "-" if cost is None else f"{cost:.2f}",
        *times,
        "-" if p99 is None else f"{p99:.2f}",
    )


def _cells_of_run(result: WayResult) -> tuple[str, ...]:
    return (
        f"{result.overloaded_s:.1f}",
        str(result.changes),
        f"{result.state_bytes_moved / 1e6:.1f}",
        "yes" if result.exact else "NO",
    )
