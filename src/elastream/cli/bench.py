"""``elastream bench``: benchmarks that run on real executors of this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.cli.exits import BROKEN

if TYPE_CHECKING:
    from rich.table import Table

    from elastream.studies.migration_bench import BenchResult

__all__ = ["app"]

app = typer.Typer(
    help="Measure on real executors of this machine; nothing else should run on it meanwhile.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_TABLE_WIDTH = 160
"""What the table needs, also where the output is no terminal."""
_STATE = typer.Option("--state", help="How large the state is: small, large or both.")
_MECHANISMS = typer.Option(
    "--mechanisms",
    help="Which ones, with commas between: stock, live, live-cold, all-at-once, progressive, "
    "pause, restart. Left out: all.",
)
_SERVICE = typer.Option("--service-us", help="Microseconds a word costs, slept where its state is.")
_MEMORY = typer.Option("--in-memory", help="Keep checkpoints in memory-backed storage.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")
_PICTURE = typer.Option("--picture", help="Draw the response times: .png, .svg or .pdf.")
_SHARES = typer.Option(
    "--share-picture",
    help="Draw what the new executor does of the work: stock and live, at the first state.",
)


@app.callback()
def _options() -> None:
    """Keep ``migration`` a command of its own while it is the only one."""


@app.command("migration")
def migration(
    state: Annotated[str, _STATE] = "small",
    mechanisms: Annotated[str | None, _MECHANISMS] = None,
    posts_a_second: Annotated[float, typer.Option("--posts-a-second")] = 500.0,
    service_us: Annotated[float, _SERVICE] = 550.0,
    trigger_s: Annotated[float, typer.Option("--trigger-s")] = 1.0,
    in_memory: Annotated[bool, _MEMORY] = False,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
    share_picture: Annotated[Path | None, _SHARES] = None,
) -> None:
    """Compare ways to add and to take away an executor of a running stateful stream.

    The same steady stream is scaled from 2 to 3 executors and back under every mechanism, and
    every word's count is checked at the end of each run. The exit code is 0 only where all runs
    ended and were exact. A few megabytes of state take about two minutes a mechanism; --state
    large (half a gigabyte) about three.

      elastream bench migration --json migration.json --picture migration.png
      elastream bench migration --state both --mechanisms live,pause,restart
    """
    from rich.console import Console

    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet, line_of_failure
    from elastream.cli.run_summaries import checked_picture, checked_target, write_summary
    from elastream.studies.migration_bench import BenchSettings, run_benchmark
    from elastream.studies.migration_mechanisms import MECHANISMS

    names = MECHANISMS if mechanisms is None else tuple(filter(None, mechanisms.split(",")))
    settings = BenchSettings(
        states=_states(state),
        mechanisms=tuple(name.strip() for name in names),
        posts_a_second=posts_a_second,
        service_us=service_us,
        trigger_s=trigger_s,
        in_memory=in_memory,
    )
    checked_picture("--picture", picture)
    checked_picture("--share-picture", share_picture)
    checked_target("--json", json_file)
    console = Console()
    began = time.monotonic()
    results: list[BenchResult] = []
    errors: list[str] = []

    def say(line: str) -> None:
        console.print(f"{time.monotonic() - began:5.0f} s  {line}", highlight=False)

    def told() -> dict[str, object]:
        runs = {"runs": [result.as_json() for result in results]}
        return {**runs, "error": "; ".join(errors)} if errors else {**runs}

    try:
        with ended_like_by_ctrl_c(), java_kept_quiet():
            run_benchmark(settings, say=say, done=results.append, failed=errors.append)
    except BaseException as error:
        errors.append(line_of_failure(error))
        write_summary(json_file, told())
        raise
    Console(width=max(console.width, _TABLE_WIDTH)).print(table(results))
    for error_line in errors:
        console.print(error_line, style="red")
    write_summary(json_file, told())
    if results:
        from elastream.studies.migration_figure import draw_figure, draw_shares

        for draw, target in ((draw_figure, picture), (draw_shares, share_picture)):
            if target is not None:
                draw(results, target)
    if errors or not all(result.exact for result in results):
        raise typer.Exit(BROKEN)


def _states(state: str) -> tuple[str, ...]:
    from elastream.model.errors import ProblemError
    from elastream.studies.migration_bench import STATES

    if state == "both":
        return tuple(STATES)
    if state not in STATES:
        raise ProblemError("--state", f"{state} is none of {', '.join(STATES)}, both")
    return (state,)


def table(results: Sequence[BenchResult]) -> Table:
    """Return the figures for people, a row for each mechanism and direction."""
    from rich.table import Table

    made = Table(title="times in seconds; response: median / p99 / worst of the rows due then")
    for name in ("state", "mechanism", ""):
        made.add_column(name)
    for name in (
        "batch\nbefore",
        "worst\nbatch",
        "ratio",
        "response\nbefore",
        "response\nduring",
        "response\nafter",
        "parti-\ntions",
        "MB\nmoved",
        "batches to\nbalance",
        "worst\npreparing",
        "exact",
    ):
        made.add_column(name, justify="right")
    for result in results:
        made.add_row(*_cells(result))
    return made


def _cells(result: BenchResult) -> tuple[str, ...]:
    figures = result.figures
    before = figures.median_batch_ms_before
    spreads = (figures.response_before, figures.response, figures.response_after)
    preparing = figures.worst_preparation_ms
    balanced = figures.batches_until_balanced
    return (
        result.state,
        result.change.mechanism,
        result.change.direction,
        f"{before / 1000:.2f}",
        f"{figures.worst_batch_ms / 1000:.2f}",
        f"{figures.worst_batch_ms / before:.2f}",
        *(
            "-" if s is None else "/".join(f"{ms / 1000:.1f}" for ms in (s.median, s.p99, s.worst))
            for s in spreads
        ),
        str(figures.partitions_moved),
        f"{figures.state_bytes_moved / 1e6:.1f}",
        "never" if balanced is None else str(balanced),
        "-" if preparing is None else f"{preparing / 1000:.2f}",
        "yes" if result.exact else "NO",
    )
