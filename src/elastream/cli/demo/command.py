"""``elastream demo``: the main job, from its options to its exit code."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.cli.exits import BROKEN
from elastream.cli.options import LOG, PAGE, PLANNER

if TYPE_CHECKING:
    from elastream.demo.demo_run import DemoRun

_LONG = typer.Option("--long", help="A whole day with bursts, on up to 4 executors: 4 minutes.")
_REALTIME = typer.Option(
    "--realtime", help="The same in Real-time Mode (Spark 4.3): answers in milliseconds."
)
_JSON = typer.Option("--json", help="Write the summary as JSON.")
_PICTURE = typer.Option("--picture", help="Where to draw the run: .png, .svg or .pdf.")


def demo(
    long: Annotated[bool, _LONG] = False,
    realtime: Annotated[bool, _REALTIME] = False,
    planner: Annotated[str, PLANNER] = "free-step",
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path, _PICTURE] = Path("elastream-demo.png"),
    log: Annotated[Path | None, LOG] = None,
    page: Annotated[str | None, PAGE] = None,
) -> None:
    """Watch a stream scale out and in by itself, on this machine.

    Counts the words of a stream of posts with a busy spell, on executors of this machine, and
    checks every count at the end. The exit code is 0 only where all are exact.

      elastream demo
      elastream demo --page
      elastream demo --realtime
      elastream demo --long --picture day.png --json summary.json
    """
    from elastream.cli.demo.picture import draw_picture
    from elastream.cli.demo.summary import printed_summary, summary
    from elastream.cli.demo.view import display
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.cli.run_summaries import (
        checked_picture,
        checked_target,
        failure_written,
        write_summary,
    )
    from elastream.cli.screen import Screen
    from elastream.core.decision_log import DecisionLog
    from elastream.demo import realtime as in_real_time
    from elastream.demo.run import Demo, run
    from elastream.page.server import checked_address

    state: DemoRun
    if realtime:
        in_real_time.check(long=long)
        state = quick = in_real_time.RealtimeDemo(planner=planner)
        start: Callable[..., None] = partial(in_real_time.run, quick)
    else:
        state = usual = Demo(planner=planner, long=long)
        start = partial(run, usual)
    checked_picture("--picture", picture)
    checked_target("--json", json_file)
    if log is not None:
        DecisionLog(log)  # say before a long run that it cannot be written
    if page is not None:
        checked_address(page)
    began = time.monotonic()
    console = Screen()
    with (
        failure_written(json_file, lambda why: summary(state, time.monotonic() - began, why)),
        ended_like_by_ctrl_c(),
        java_kept_quiet(),
        display(console) as show,
    ):
        start(show, log=log, page=page)
    draw_picture(state, picture)
    seconds = time.monotonic() - began
    console.print(printed_summary(state, seconds))
    console.print(f"drawn: {picture}", highlight=False, soft_wrap=True)
    error = None if state.exact else f"{state.wrong_words} words have a wrong count"
    write_summary(json_file, summary(state, seconds, error))
    if not state.exact:
        raise typer.Exit(BROKEN)
