"""``elastream patterns``: the second application of papers 000 and 001, options to exit code."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elastream.atomic_io import replacing
from elastream.cli.exits import BROKEN

if TYPE_CHECKING:
    from elastream_lab.applications.patterns.run import PatternsRun


_INPUT = typer.Option("--input", help="Posts: CSV, JSON lines or Parquet.")
_TIME = typer.Option("--time", help="With --input: the column that says when a post was written.")
_TEXT = typer.Option("--text", help="With --input: the column that holds its text.")
_SEED = typer.Option("--seed", help="Of the made posts.")
_POSTS = typer.Option("--posts", help="How many posts are made.")
_SECONDS = typer.Option("--seconds", help="How long the replay takes.")
_WINDOW = typer.Option("--window", help="How many posts the window holds.")
_TICK = typer.Option("--tick", help="After how many posts maximal patterns are reported.")
_LEAST = typer.Option("--least", help="In how many posts of the window a frequent pattern is.")
_WORDS = typer.Option("--most-words", help="How many words a pattern has at most.")
_MOVES = typer.Option("--moves", help="How often all tasks change their executors meanwhile.")
_OUT = typer.Option("--out", help="Write what becomes and stops being maximal, as JSON lines.")
_JSON = typer.Option("--json", help="Write the summary as JSON.")
_LINE_EVERY_S = 10.0


def patterns(
    source: Annotated[Path | None, _INPUT] = None,
    time_column: Annotated[str | None, _TIME] = None,
    text: Annotated[str | None, _TEXT] = None,
    seed: Annotated[int, _SEED] = 1,
    posts: Annotated[int, _POSTS] = 6000,
    replay_s: Annotated[float, _SECONDS] = 60.0,
    window: Annotated[int, _WINDOW] = 600,
    tick: Annotated[int, _TICK] = 100,
    least: Annotated[int, _LEAST] = 30,
    most_words: Annotated[int, _WORDS] = 3,
    executors: Annotated[int, typer.Option("--executors")] = 2,
    partitions: Annotated[int, typer.Option("--partitions")] = 4,
    moves: Annotated[int, _MOVES] = 2,
    out: Annotated[Path | None, _OUT] = None,
    json_file: Annotated[Path | None, _JSON] = None,
) -> None:
    """Mine the maximal frequent patterns of a sliding window.

    A pattern is a set of words of a post; it is frequent where it is in --least posts of the
    window, and maximal where no larger one is. Every tick is compared with a plain miner of the
    same posts; the exit code is 0 only where all are equal.

      elastream patterns --input posts.parquet --time time --text text --most-words 2
    """
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.cli.run_summaries import checked_target, failure_written, write_summary
    from elastream_lab.applications.patterns.plain_miner import Mining
    from elastream_lab.applications.patterns.run import (
        PatternsSettings,
        cluster_of,
        prepared,
        run,
    )
    from elastream_lab.harness.job_session import job_session

    settings = PatternsSettings(
        input=source,
        time=time_column,
        text=text,
        seed=seed,
        posts=posts,
        replay_s=replay_s,
        mining=Mining(window=window, tick=tick, least=least, most_words=most_words),
        executors=executors,
        partitions=partitions,
        moves=moves,
    )
    checked_target("--out", out)
    checked_target("--json", json_file)
    began = time.monotonic()
    show = _Lines()
    with (
        prepared(settings) as made,
        failure_written(json_file, lambda why: _summary(made, time.monotonic() - began, why)),
        ended_like_by_ctrl_c(),
        java_kept_quiet(),
    ):
        made.doing = f"starting Spark, {executors} executors"
        show(made)
        with job_session(cluster_of(settings)) as spark:
            run(made, spark, show=show)
    error = None if made.exact else f"{made.wrong_ticks or 0} ticks differ from the plain miner"
    report = _summary(made, time.monotonic() - began, error)
    write_summary(json_file, report)
    if out is not None:
        _write_changes(made, out)
    typer.echo(
        f"{made.recording.rows:,} posts, {made.ticks:,} ticks, {made.moved} tasks moved, "
        f"{error or 'all exact against a plain miner'}"
    )
    if not made.exact:
        raise typer.Exit(BROKEN)


class _Lines:
    """Prints now and then how far a run is."""

    def __init__(self) -> None:
        self._doing = ""
        self._last_s = 0.0

    def __call__(self, run: PatternsRun) -> None:
        """Print a line where there is something new to say."""
        if run.doing == self._doing and time.monotonic() - self._last_s < _LINE_EVERY_S:
            return
        self._doing, self._last_s = run.doing, time.monotonic()
        rows = f"{run.rows_done:,} of {run.recording.rows:,} posts"
        typer.echo(f"{run.doing}: {rows}, {len(run.reported):,} ticks reported")


def _summary(run: PatternsRun, seconds: float, error: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "posts": run.recording.rows,
        "ticks": run.ticks,
        "exact": run.exact,
        "seconds": round(seconds, 1),
        "tasks_moved": run.moved,
        "lag_batches": run.lag_batches,
    }
    return fields if error is None else {**fields, "error": error}


def _write_changes(run: PatternsRun, out: Path) -> None:
    from elastream_lab.applications.patterns.plain_miner import changes

    with replacing(out) as temporary, temporary.open("w") as file:
        for tick, pattern, became in changes(run.reported):
            file.write(json.dumps({"tick": tick, "pattern": pattern, "maximal": became}) + "\n")
