"""``elastream study handover``: the experiments of paper 002, section 4, on two applications."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

_QUERIES = typer.Option("--queries", help="Which ones, with commas between.")
_RANGE = typer.Option("--range-s", help="Range of the joins of q1 and q3 in seconds.")
_JOIN_AT = typer.Option("--join-at-s", help="Seconds after which the target joins.")
_GAP = typer.Option("--gap-ms", help="Mean time between the readings of a stream.")
_TRIGGER = typer.Option("--trigger-s", help="A batch begins so often.")
_REPEATS = typer.Option("--repeats", help="How often each query runs, with and without.")
_MASTERS = typer.Option(
    "--masters",
    help="The Spark masters of origin and target, with a comma between, or one for both; "
    "embedded: a cluster of its own. local[1] is the smallest application there is.",
)
_SEED = typer.Option("--seed", help="Draws the readings.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")
_PICTURE = typer.Option("--picture", help="Draw the figures: .png, .svg or .pdf.")


def handover(
    queries: Annotated[str, _QUERIES] = "q1,q2,q3",
    range_s: Annotated[float, _RANGE] = 10.0,
    join_at_s: Annotated[float, _JOIN_AT] = 10.0,
    gap_ms: Annotated[int, _GAP] = 50,
    trigger_s: Annotated[float, _TRIGGER] = 3.0,
    repeats: Annotated[int, _REPEATS] = 3,
    masters: Annotated[str, _MASTERS] = "embedded",
    seed: Annotated[int, _SEED] = 1,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """Hand queries over while they run (paper 002).

    Two Spark applications, each a driver process with a cluster of its own. Every query runs with
    and without a handover, and again; the outputs are compared row by row. Takes a quarter of an
    hour.

      elastream study handover --picture handover.png
    """
    from rich.console import Console

    from elastream.cli.quiet import ended_like_by_ctrl_c
    from elastream.cli.run_summaries import checked_picture, checked_target
    from elastream_lab.cli.study.output import show, written
    from elastream_lab.studies.handover.excerpt import excerpt
    from elastream_lab.studies.handover.figures import (
        choice_table,
        cost_table,
        response_figure,
        response_table,
    )
    from elastream_lab.studies.handover.run import run_query
    from elastream_lab.studies.handover.settings import HandoverSettings
    from elastream_lab.studies.handover.sides import both_sides

    names = tuple(dict.fromkeys(name.strip() for name in queries.split(",") if name.strip()))
    settings = HandoverSettings(
        names, range_s, join_at_s, gap_ms, trigger_s=trigger_s, seed=seed, repeats=repeats,
        masters=tuple(each.strip() for each in masters.split(",")),
    )  # fmt: skip
    checked_picture("--picture", picture)
    checked_target("--json", json_file)
    console = Console()

    def say(line: str) -> None:
        console.print(line, highlight=False)

    with (
        written("handover", json_file) as figures,
        ended_like_by_ctrl_c(),
        tempfile.TemporaryDirectory(prefix="elastream-handover-") as scratch,
    ):
        say("two applications start ...")
        with both_sides(Path(scratch), settings.both_masters) as sides:
            runs = [run_query(name, settings, sides, Path(scratch), say) for name in names]
        for repeats_of in runs:
            figures += (response_figure(repeats_of, settings), excerpt(repeats_of[0]))
        figures.extend(response_table(runs, settings))
        figures.append(cost_table([run for of in runs for run in of], settings))
        figures.append(choice_table(settings))
        for figure in figures:
            show(console, figure)
    if picture is not None:
        from elastream_lab.studies.picture import draw_figures

        draw_figures(figures, picture)
