"""``elastream bench realtime``: latency of a Real-time query, alone, attached, and in changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from elastream_lab.cli.trials import run_trials

if TYPE_CHECKING:
    from rich.table import Table

    from elastream_lab.benchmarks.realtime.figures import RealtimeResult


_TABLE_WIDTH: Final = 130
"""What the table needs, also where the output is not a terminal."""
_RATE = typer.Option("--rows-a-second", help="How many rows come.")
_BURST = typer.Option(
    "--burst", help="How many times as many come while executors come and state moves."
)
_PARTITION = typer.Option("--partition-mb", help="Megabytes of state in each of four partitions.")
_BATCHES = typer.Option("--batches", help="Batch boundaries of each stretch without a change.")
_ROUNDS = typer.Option("--rounds", help="How often the query runs alone and attached, in turn.")
_TRIGGER = typer.Option("--trigger-s", help="How long a batch lasts, in seconds; at least 5.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")


def realtime(
    rows_a_second: Annotated[float, _RATE] = 200.0,
    burst: Annotated[float, _BURST] = 2.0,
    partition_mb: Annotated[float, _PARTITION] = 10.0,
    batches: Annotated[int, _BATCHES] = 3,
    rounds: Annotated[int, _ROUNDS] = 2,
    trigger_s: Annotated[float, _TRIGGER] = 10.0,
    json_file: Annotated[Path | None, _JSON] = None,
) -> None:
    """Show what rows of a Real-time query wait, alone and attached.

    One query on one cluster runs alone and attached in turn. Then an executor comes, state moves to
    and fro, and the executor leaves. At last one of two executors is killed. Every count is checked
    at the end. The exit code is 0 only where all went through and was exact. It needs Spark 4.3 and
    takes about ten minutes.

      elastream bench realtime --json realtime.json
      elastream bench realtime --trigger-s 5 --batches 1 --rounds 1 --partition-mb 0
    """
    from elastream.cli.run_summaries import checked_target
    from elastream.model.errors import UnsupportedSparkError
    from elastream.spark.internals.variants import installed_variant
    from elastream_lab.benchmarks.realtime.run import run_realtime
    from elastream_lab.benchmarks.realtime.settings import RealtimeSettings

    settings = RealtimeSettings(
        rows_a_second=rows_a_second,
        burst=burst,
        partition_mb=partition_mb,
        batches=batches,
        rounds=rounds,
        trigger_s=trigger_s,
    )
    checked_target("--json", json_file)
    if not installed_variant().has_stateful_realtime:
        raise UnsupportedSparkError("Real-time Mode with state needs Spark 4.3")

    def run(
        say: Callable[[str], None],
        done: Callable[[RealtimeResult], None],
        failed: Callable[[str], None],
    ) -> None:
        run_realtime(settings, say=say, done=done, failed=failed)

    run_trials(
        run,
        settings.as_json(),
        table=table,
        width=_TABLE_WIDTH,
        note="rows come from files of timed lines in place of a broker; around a boundary: due "
        "within a second of it",
        json_file=json_file,
        draw=lambda _: None,
    )


def table(results: Sequence[RealtimeResult]) -> Table:
    """Return the figures for people, a row for each stretch, and the ratios below."""
    from rich.table import Table

    from elastream_lab.benchmarks.realtime.figures import ratios

    over = ", ".join(f"{name.replace('_', ' ')} {ratio}" for name, ratio in ratios(results).items())
    made = Table(title="latency in ms, of rows between boundaries and around them", caption=over)
    for name in ("system", "what"):
        made.add_column(name)
    for name in (
        "rows/s",
        "median",
        "p99",
        "boundaries",
        "p99\naround",
        "worst\naround",
        "gap",
        "killed:\ngap",
        "seconds",
        "load",
        "exact",
    ):
        made.add_column(name, justify="right", overflow="fold")
    for each in results:
        steady, near = each.stretch.steady, each.stretch.around_boundaries
        made.add_row(
            each.system,
            each.what,
            f"{each.rows_per_s:g}",
            f"{steady.median:.0f}",
            f"{steady.p99:.0f}",
            str(len(each.stretch.boundaries)),
            f"{near.p99:.0f}",
            f"{near.worst:.0f}",
            f"{each.stretch.gap_ms:.0f}",
            "-" if each.killed_gap_ms is None else f"{each.killed_gap_ms:.0f}",
            "-" if each.seconds is None else f"{each.seconds:.0f}",
            f"{each.load:.0f}",
            "yes" if each.exact else "NO",
        )
    return made
