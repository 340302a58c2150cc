"""``elastream trace build``: raw records of a past load, summed up on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_INPUT = typer.Option(
    "--input",
    help="A file, folder or pattern; may be given several times. CSV, JSON lines, Parquet.",
)
_OUT = typer.Option("--out", help="The folder to write.")
_EVERY = typer.Option("--every", help="Length of an interval, such as 15m, 1h or 1d.")
_WINDOW = typer.Option(
    "--window", help="A key is held for so long after its last record; left out: for ever."
)
_PATTERNS = typer.Option(
    "--patterns",
    help="With --text: count the combinations of up to this many words of a row, not the words.",
)
_FORMAT = typer.Option("--format", help="csv, json or parquet, where the name does not tell.")
_BAD = typer.Option("--max-bad-share", help="A greater share of bad rows is an error.")
_MASTER = typer.Option("--master", help="The Spark master; left out: this machine's cores.")


def build(
    inputs: Annotated[list[str], _INPUT],
    time: Annotated[str, typer.Option("--time", help="Column that says when a row happened.")],
    out: Annotated[Path, _OUT],
    text: Annotated[str | None, typer.Option("--text", help="Column of words to count.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Column that is the key.")] = None,
    patterns: Annotated[int | None, _PATTERNS] = None,
    tasks: Annotated[int, typer.Option("--tasks", help="State partitions of the query.")] = 64,
    every: Annotated[str, _EVERY] = "1h",
    window: Annotated[str | None, _WINDOW] = None,
    value_bytes: Annotated[int, typer.Option("--value-bytes", help="State next to a key.")] = 8,
    max_bad_share: Annotated[float, _BAD] = 0.01,
    file_format: Annotated[str | None, _FORMAT] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a trace.")] = False,
    master: Annotated[str | None, _MASTER] = None,
) -> None:
    """Sum up raw records: work and state of every task, on Spark.

    Records go to tasks exactly as Spark partitions the state of a query over the same key. Rows
    without a time, text or key are counted and reported.

      elastream trace build --input posts.parquet --time time --text text --out trace
    """
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.foresight.commands.trace import seconds_of
    from elastream.spark.sessions.batch_session import batch_session
    from elastream_lab.applications.patterns.building import build_trace
    from elastream_lab.applications.patterns.settings import TraceSettings, format_of

    settings = TraceSettings(
        input=tuple(inputs),
        time=time,
        text=text,
        key=key,
        patterns=patterns,
        tasks=tasks,
        every_s=seconds_of("--every", every),
        window_s=None if window is None else seconds_of("--window", window),
        value_bytes=value_bytes,
        max_bad_share=max_bad_share,
        format=format_of(file_format),
    )
    session = batch_session("elastream trace", master=master)
    with ended_like_by_ctrl_c(), java_kept_quiet(), session as spark:
        report = build_trace(spark, settings, out, overwrite=overwrite)
    bad = ", ".join(f"{number:,} without a {fault}" for fault, number in report.bad_rows.items())
    typer.echo(f"{report.rows:,} rows read, bad ones: {bad or 'none'}")
    typer.echo(f"{report.records:,} records in {report.intervals:,} intervals of {every}")
    typer.echo(f"{out}: work and state of {report.tasks:,} tasks")
