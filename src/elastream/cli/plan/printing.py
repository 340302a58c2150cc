"""What every ``elastream plan`` command shares: its arguments and how it prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from elastream.cli.exits import INFEASIBLE
from elastream.model.plan import Infeasible

ProblemFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The problem as JSON; - reads standard input.")
]


def print_plan(fields: Mapping[str, object]) -> None:
    """Print one JSON object, the whole of standard output."""
    typer.echo(json.dumps(fields, allow_nan=False))


def refuse(outcome: Infeasible) -> NoReturn:
    """Print why no plan exists and end with the exit code that says so."""
    print_plan({"status": outcome.status, "reason": outcome.reason})
    raise typer.Exit(INFEASIBLE)
