"""``elastream demo``: the main job, from its options to its exit code."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.cli.exits import BROKEN
from elastream.cli.page import PAGE

if TYPE_CHECKING:
    from elastream.cli.screen import Screen
    from elastream.demo.run import Demo

__all__ = ["demo"]

_INPUT = typer.Option("--input", help="Replay this CSV, JSON-lines or Parquet file.")
_TIME = typer.Option("--time", help="Its column with the time of a row.")
_TEXT = typer.Option("--text", help="Its column with the text whose words are counted.")
_SEED = typer.Option("--seed", help="Of the made posts.")
_SECONDS = typer.Option("--seconds", help="How long the replay takes.")
_SERVICE = typer.Option(
    "--service-us",
    help="Microseconds that a word costs, slept where its state is; 0 for none. "
    "Left out: such that the busiest moment needs the most executors.",
)
_SPARES = typer.Option(
    "--spares",
    help="Executors kept warm and without state beside those at work: a scale-out takes them.",
)
_PLANNER = typer.Option(
    "--planner",
    help="How the tasks that move are chosen: free-step, free-ahead, single-step or transition; "
    "to compare with: even-split, consistent-hashing, redist.",
)
_MECHANISM = typer.Option(
    "--mechanism",
    help="How changes are carried out: live, or pause: the query is stopped and started again.",
)
_JSON = typer.Option("--json", help="Write the summary as JSON.")
_PICTURE = typer.Option("--picture", help="Draw the run: .png, .svg or .pdf.")
_LOG = typer.Option("--log", help="Write every decision as JSON lines; elastream log reads them.")


def demo(
    input_file: Annotated[Path | None, _INPUT] = None,
    time_column: Annotated[str | None, _TIME] = None,
    text_column: Annotated[str | None, _TEXT] = None,
    seed: Annotated[int, _SEED] = 1,
    replay_s: Annotated[float, _SECONDS] = 150.0,
    service_us: Annotated[float | None, _SERVICE] = None,
    executors_min: Annotated[int, typer.Option("--executors-min")] = 2,
    executors_max: Annotated[int, typer.Option("--executors-max")] = 4,
    spares: Annotated[int, _SPARES] = 1,
    planner: Annotated[str, _PLANNER] = "free-step",
    mechanism: Annotated[str, _MECHANISM] = "live",
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
    log: Annotated[Path | None, _LOG] = None,
    page: Annotated[str | None, PAGE] = None,
) -> None:
    """Watch a stream scale out and in by itself, on this machine.

    Counts the words of a stream of posts whose rate follows a day with bursts, and checks every
    count at the end. The exit code is 0 only where all are exact.

      elastream demo --page
      elastream demo --picture day.png
      elastream demo --input tweets.parquet --time time --text text --json summary.json
    """
    from elastream.cli.demo.summary import summary
    from elastream.cli.demo.view import watched
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.cli.run_summaries import checked_picture, checked_target, failure_written
    from elastream.cli.screen import Screen
    from elastream.core.decision_log import DecisionLog
    from elastream.demo.run import prepared, run
    from elastream.demo.settings import DemoSettings
    from elastream.page.server import checked_address

    settings = DemoSettings(
        input=input_file,
        time=time_column,
        text=text_column,
        seed=seed,
        replay_s=replay_s,
        service_us=service_us,
        executors_min=executors_min,
        executors_max=executors_max,
        spares=spares,
        planner=planner,
        mechanism=mechanism,
    )
    checked_picture("--picture", picture)
    checked_target("--json", json_file)
    if log is not None:
        DecisionLog(log)  # say before a long run that it cannot be written
    if page is not None:
        checked_address(page)
    began = time.monotonic()
    console = Screen()
    with prepared(settings) as made:
        with (
            failure_written(json_file, lambda why: summary(made, time.monotonic() - began, why)),
            ended_like_by_ctrl_c(),
            java_kept_quiet(),
            watched(console) as show,
        ):
            run(made, show=show, log=log, page=page)
        _tell(made, console, time.monotonic() - began, json_file, picture)
    if not made.exact:
        raise typer.Exit(BROKEN)


def _tell(
    made: Demo, console: Screen, seconds: float, json_file: Path | None, picture: Path | None
) -> None:
    from elastream.cli.demo.picture import draw_picture
    from elastream.cli.demo.summary import shown, summary
    from elastream.cli.run_summaries import write_summary

    error = None if made.exact else f"{made.wrong_words} words have a wrong count"
    console.print(shown(made, seconds))
    write_summary(json_file, summary(made, seconds, error))
    if picture is not None:
        draw_picture(made, picture)
        console.print(f"drawn: {picture}", highlight=False)
