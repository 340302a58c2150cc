"""``elastream bench peers``: the same rows, keys, state and change on Flink and here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.cli.exits import BROKEN

if TYPE_CHECKING:
    from rich.table import Table

    from elastream_lab.benchmarks.peers.figures import ChangeFigures, PeerResult


_FLINK = typer.Option("--flink", help="The virtual environment with Flink, as made by: make flink.")
_RATE = typer.Option("--rows-a-second", help="How many rows are due a second.")
_STATE = typer.Option("--state-mb", help="Megabytes of state.")
_HOT = typer.Option("--hot-share", help="The part of the state that the stream goes on to update.")
_TRIGGER = typer.Option(
    "--trigger-s", help="Seconds between micro-batches here, and between checkpoints there."
)
_JSON = typer.Option("--json", help="Write the figures as JSON.")


def peers(
    flink: Annotated[Path, _FLINK] = Path(".flink"),
    rows_a_second: Annotated[float, _RATE] = 1000.0,
    state_mb: Annotated[int, _STATE] = 64,
    hot_share: Annotated[float, _HOT] = 0.2,
    trigger_s: Annotated[float, _TRIGGER] = 1.0,
    json_file: Annotated[Path | None, _JSON] = None,
) -> None:
    """Compare with Apache Flink: same rows, keys, state and change.

    Two executors, or task managers of one slot, count words at a steady rate and become three:
    once where the third is started then, once where it is there. Every count is checked. The exit
    code is 0 only where both ended and were exact. About six minutes.

      elastream bench peers --json peers.json
      elastream bench peers --state-mb 512 --rows-a-second 2000
    """
    from rich.console import Console

    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.cli.run_summaries import checked_target, failure_written, write_summary
    from elastream_lab.benchmarks.peers.bench import PeerSettings, run_peers
    from elastream_lab.benchmarks.peers.flink.installation import installed_flink

    settings = PeerSettings(
        rows_a_second=rows_a_second, state_mb=state_mb, hot_share=hot_share, trigger_s=trigger_s
    )
    checked_target("--json", json_file)
    installation = installed_flink(flink)
    console, began = Console(), time.monotonic()
    results: list[PeerResult] = []
    errors: list[str] = []

    def say(line: str) -> None:
        console.print(f"{time.monotonic() - began:5.0f} s  {line}", highlight=False)

    def report(*broken: str) -> dict[str, object]:
        runs = [result.as_json() for result in results]
        found: dict[str, object] = {"settings": settings.as_json(), "runs": runs}
        return {**found, "error": "; ".join((*errors, *broken))} if errors or broken else found

    with failure_written(json_file, report), ended_like_by_ctrl_c(), java_kept_quiet():
        run_peers(settings, installation, say=say, done=results.append, failed=errors.append)
    console.print(_table(results))
    for line in errors:
        console.print(line, style="red")
    write_summary(json_file, report())
    if errors or not all(result.exact for result in results):
        raise typer.Exit(BROKEN)


def _table(results: Sequence[PeerResult]) -> Table:
    """Return the figures for people, a column for each system."""
    from rich.table import Table

    made = Table(title="times in milliseconds, settled in seconds")
    made.add_column("")
    for result in results:
        made.add_column(result.system, justify="right")
    lines = [_lines(result) for result in results]
    for name in lines[0] if lines else ():
        made.add_row(name, *(line[name] for line in lines))
    return made


def _lines(result: PeerResult) -> dict[str, str]:
    changes = {
        "rescale, help at hand": result.rescale,
        "rescale, cold": result.cold_rescale,
    }
    return {
        "rows a second from a backlog": f"{result.rows_per_s:,.0f}",
        "steady latency: median": f"{result.steady.median:,.0f}",
        "steady latency: p99": f"{result.steady.p99:,.0f}",
        **{
            f"{name}: {part}": text
            for name, change in changes.items()
            for part, text in _parts(change).items()
        },
        "exact": "yes" if result.exact else "NO",
    }


def _parts(change: ChangeFigures) -> dict[str, str]:
    return {
        "longest without a result": f"{change.gap_ms:,.0f}",
        "added to p99": f"{change.added_p99_ms:,.0f}",
        "settled after": "never" if change.settled_s is None else f"{change.settled_s:.1f} s",
    }
