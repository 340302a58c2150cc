"""``elastream bench transfer``: copies of state from storage, and from its owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream_lab.cli.trials import run_trials

if TYPE_CHECKING:
    from rich.table import Table

    from elastream_lab.benchmarks.transfer.run import TransferResult

_STORES = typer.Option("--store", help="Which ones, with commas between: local, slow.")
_SIZE = typer.Option("--partition-mb", help="About how much state the partition has.")
_RATE = typer.Option("--store-mb-per-s", help="How quickly slow storage is read.")
_OPEN = typer.Option("--store-open-ms", help="How long opening or listing takes there.")
_REPEATS = typer.Option("--repeats", help="How often each way runs.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")


def transfer(
    store: Annotated[str, _STORES] = "local,slow",
    partition_mb: Annotated[float, _SIZE] = 64.0,
    store_mb_per_s: Annotated[float, _RATE] = 50.0,
    store_open_ms: Annotated[int, _OPEN] = 30,
    repeats: Annotated[int, _REPEATS] = 3,
    json_file: Annotated[Path | None, _JSON] = None,
) -> None:
    """Copy state from storage and from executors, and compare.

    The state of a partition of a running query is copied to another executor, by turns from the
    checkpoint and from the executor that owns it, and taken over. Slow storage is the local disk,
    read at a pace. All state is checked at the end. The exit code is 0 only where it was exact. A
    store takes two to four minutes.

      elastream bench transfer --json transfer.json
      elastream bench transfer --store slow --partition-mb 350
    """
    from elastream.cli.run_summaries import checked_target
    from elastream_lab.benchmarks.transfer.run import TransferSettings, run_transfers

    settings = TransferSettings(
        store=tuple(filter(None, map(str.strip, store.split(",")))),
        partition_mb=partition_mb,
        store_mb_per_s=store_mb_per_s,
        store_open_ms=store_open_ms,
        repeats=repeats,
    )
    checked_target("--json", json_file)

    def run(
        say: Callable[[str], None],
        done: Callable[[TransferResult], None],
        failed: Callable[[str], None],  # noqa: ARG001 - what fails ends the run
    ) -> None:
        run_transfers(settings, say=say, done=done)

    run_trials(
        run,
        settings.as_json(),
        table=table,
        width=100,
        note=f"slow storage: the local disk, read at {settings.store_mb_per_s:g} MB/s; opening and "
        f"listing took {settings.store_open_ms} ms, slept",
        json_file=json_file,
        draw=lambda _: None,
    )


def table(results: Sequence[TransferResult]) -> Table:
    """Return the figures for people, a row for each copy."""
    from rich.table import Table

    made = Table(title="from the request until the copy was there")
    for name in ("store", "way"):
        made.add_column(name)
    for name in ("MB of state", "seconds", "MB from storage", "MB from executors", "exact"):
        made.add_column(name, justify="right")
    for result in sorted(results, key=lambda each: (each.store, each.way)):
        sizes = (result.bytes_from_storage, result.bytes_from_executors)
        made.add_row(
            result.store,
            result.way,
            f"{result.partition_bytes / 1e6:.0f}",
            f"{result.seconds:.2f}",
            *(f"{size / 1e6:.0f}" for size in sizes),
            "yes" if result.exact else "NO",
        )
    return made
