"""``elastream study look-ahead``: a forecast next to none and next to an oracle, on real loads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_INPUT = typer.Option(
    "--input", help="A load: a file of times and counts, the first two columns; given again: more."
)
_LOOK_AHEAD = typer.Option("--look-ahead-s", help="How many seconds the loop looks ahead.")
_POOL = typer.Option(
    "--pool-s", help="Seconds until executors come, and as many until they are warm."
)
_DAYS = typer.Option("--days", help="How many days at the end of each load are held out.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")
_PICTURE = typer.Option("--picture", help="Draw the figures: .png, .svg or .pdf.")


def look_ahead(
    input: Annotated[list[Path], _INPUT],  # noqa: A002 - the option's name
    look_ahead_s: Annotated[float, _LOOK_AHEAD] = 300.0,
    pool_s: Annotated[float, _POOL] = 60.0,
    days: Annotated[int, _DAYS] = 7,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """Scale ahead of real loads, and count overload and cost.

    The loop with a forecast learns from all but the last days of a load; those are then run on a
    simulated cluster by the loop without a forecast, the loop with one, and an oracle that knows
    the load. Takes about a minute a load.

      elastream study look-ahead --input requests.csv.gz --input posts.csv --picture ahead.png
    """
    from elastream_lab.cli.study.output import tell
    from elastream_lab.studies.look_ahead.backtest import LookAheadStudy
    from elastream_lab.studies.look_ahead.figures import figures
    from elastream_lab.studies.look_ahead.series import read_series

    study = LookAheadStudy(look_ahead_s=look_ahead_s, pool_s=pool_s, days=days)
    makers = figures(study, [read_series(path) for path in input])
    tell("look-ahead", makers, json_file, picture)
