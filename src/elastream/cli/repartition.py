"""``elastream repartition``: more partitions, or fewer, for the state of a stopped query."""

from __future__ import annotations

from typing import Annotated

import typer

from elastream.cli.exits import BROKEN
from elastream.cli.terminal import say
from elastream.extras import expect_installed
from elastream.model.errors import SparkError

_CHECKPOINT = typer.Argument(
    metavar="CHECKPOINT", help="The checkpoint of a stopped query: a folder, or a URI."
)
_PARTITIONS = typer.Argument(metavar="N", help="The new number of partitions.")
_MASTER = typer.Option("--master", help="The Spark master; left out: this machine's cores.")


def repartition(
    checkpoint: Annotated[str, _CHECKPOINT],
    partitions: Annotated[int, _PARTITIONS],
    master: Annotated[str | None, _MASTER] = None,
) -> None:
    """Change the number of state partitions of a stopped query.

    Spark 4.2 and later do it, in a batch of their own that reads no rows. The query goes on with
    the new number when it is started again. What cannot be done is refused before anything is
    written. After an interruption, give the same command again. Not for a query that writes to
    Spark's file sink, which the checkpoint does not show: its log would miss a batch.

      elastream repartition checkpoints/orders 16
    """
    expect_installed("pyspark")
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.spark.internals.checkpoint import local_folder, read_checkpoint
    from elastream.spark.internals.repartitioning import expect_repartitioning
    from elastream.spark.sessions.batch_session import batch_session
    from elastream.spark.sessions.settings import local_disk_settings, state_settings
    from elastream.spark.steer.repartition import checked_repartitioning, repartition_checkpoint

    expect_repartitioning()
    folder = local_folder(checkpoint)
    here = folder is not None and (master is None or folder.exists())
    before = None
    if here:
        before = read_checkpoint(checkpoint)
        checked_repartitioning(before, partitions)
        state = f"{before.partitions} partitions after batch {before.committed}"
        say(f"{checkpoint}: {state}; starting Spark", err=True)
    settings = state_settings() | (local_disk_settings() if here else {})
    session = batch_session("elastream repartition", master=master, config=settings)
    with ended_like_by_ctrl_c(), java_kept_quiet(), session as spark:
        say(f"{checkpoint}: repartitioning to {partitions}", err=True)
        try:
            done = repartition_checkpoint(spark, checkpoint, partitions, before=before)
        except SparkError as error:
            say(f"elastream: {error}", err=True)
            raise typer.Exit(BROKEN) from None
        except KeyboardInterrupt:
            say(f"elastream: {checkpoint}: give the same command again to finish it", err=True)
            raise
    change = f"{done.before} -> {done.partitions} partitions in {done.seconds:.1f} s"
    say(f"{checkpoint}: {change}, batch {done.batch}; start its query again")
