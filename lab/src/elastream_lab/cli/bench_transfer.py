"""``elastream bench transfer``: copies of state from storage, and from its owner."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.model.errors import ProblemError
from elastream_lab.cli.trials import run_trials

if TYPE_CHECKING:
    from rich.table import Table

    from elastream_lab.benchmarks.transfer.run import TransferResult

_STORES = typer.Option("--store", help="Which ones, with commas between: local, slow.")
_SIZE = typer.Option("--partition-mb", help="About how much state the partition has.")
_RATE = typer.Option("--store-mb-per-s", help="What slow storage gives an executor.")
_OPEN = typer.Option("--store-open-ms", help="How long opening or listing takes there.")
_LINK = typer.Option(
    "--executor-mb-per-s", help="What executors' link carries: root; else no limit."
)
_REPEATS = typer.Option("--repeats", help="How often each way runs.")
_OFFERS = typer.Option("--offers", help="Further copies from the owner, which are dropped.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")


def transfer(
    store: Annotated[str, _STORES] = "local,slow",
    partition_mb: Annotated[float, _SIZE] = 64.0,
    store_mb_per_s: Annotated[float, _RATE] = 50.0,
    store_open_ms: Annotated[int, _OPEN] = 30,
    executor_mb_per_s: Annotated[float | None, _LINK] = None,
    repeats: Annotated[int, _REPEATS] = 3,
    offers: Annotated[int, _OFFERS] = 0,
    json_file: Annotated[Path | None, _JSON] = None,
) -> None:
    """Copy state from storage and from executors, and compare.

    The state of a partition of a running query is copied to another executor, by turns from the
    checkpoint and from the executor that owns it, and taken over. Slow storage is the local disk,
    read through a link that is slept; the link between executors is a loopback of known width. All
    state is checked at the end. The exit code is 0 only where it was exact and came from where it
    should. A store takes two to six minutes.

      elastream bench transfer --json transfer.json
      elastream bench transfer --store slow --partition-mb 350 --executor-mb-per-s 500
    """
    from elastream.cli.run_summaries import checked_target
    from elastream_lab.benchmarks.transfer.run import TransferSettings, run_transfers
    from elastream_lab.hosts.namespaces import why_not

    settings = TransferSettings(
        store=tuple(filter(None, map(str.strip, store.split(",")))),
        partition_mb=partition_mb,
        store_mb_per_s=store_mb_per_s,
        store_open_ms=store_open_ms,
        executor_mb_per_s=executor_mb_per_s,
        repeats=repeats,
        offers=offers,
    )
    checked_target("--json", json_file)
    if executor_mb_per_s is not None and (why := why_not()) is not None:
        raise ProblemError("--executor-mb-per-s", f"no link can be limited here: {why}")

    def run(
        say: Callable[[str], None],
        done: Callable[[TransferResult], None],
        failed: Callable[[str], None],
    ) -> None:
        run_transfers(settings, say=say, done=done, failed=failed)

    link = "as wide as loopback" if executor_mb_per_s is None else f"{executor_mb_per_s:g} MB/s"
    run_trials(
        run,
        settings.as_json(),
        table=table,
        width=120,
        note=f"medians; slow storage: the local disk, {store_mb_per_s:g} MB/s for each executor; "
        f"opening and listing took {store_open_ms} ms, slept; executors' link: {link}",
        json_file=json_file,
        draw=lambda _: None,
    )


def table(results: Sequence[TransferResult]) -> Table:
    """Return the figures for people, a row for each store and way."""
    from rich.table import Table

    made = Table(title="from the request until the copy was there")
    for name in ("store", "way"):
        made.add_column(name)
    for name in (
        *("copies", "MB of state", "seconds", "MB from storage", "MB from executors"),
        *("no task, ms p99", "move over others", "exact"),
    ):
        made.add_column(name, justify="right")
    groups: dict[tuple[str, str], list[TransferResult]] = {}
    for result in results:
        groups.setdefault((result.store, result.way), []).append(result)
    for (store, way), group in sorted(groups.items()):
        made.add_row(
            store,
            way,
            f"{len(group)}",
            f"{median(each.partition_bytes for each in group) / 1e6:.0f}",
            f"{median(each.seconds for each in group):.2f}",
            f"{median(each.bytes_from_storage for each in group) / 1e6:.1f}",
            f"{median(each.bytes_from_executors for each in group) / 1e6:.1f}",
            _shown([each.stamp_held_ms for each in group], ".0f", p99),
            _shown([each.move_over_neighbours for each in group], ".2f", median),
            "yes" if all(each.exact for each in group) else "NO",
        )
    return made


def p99(values: Sequence[float]) -> float:
    """Return the value that one in a hundred is above at most."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def _shown(
    values: Sequence[float | None], form: str, of: Callable[[Sequence[float]], float]
) -> str:
    known = [value for value in values if value is not None]
    return format(of(known), form) if known else "-"
