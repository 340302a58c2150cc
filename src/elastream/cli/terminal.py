"""Lines for people: what a terminal would act on is escaped.

Every command writes its lines through here and its tables through :mod:`elastream.cli.screen`. Data
(JSON) goes to standard output unchanged.
"""

from __future__ import annotations

import typer

from elastream.model.words import printable


def say(line: str, *, err: bool = False) -> None:
    """Write one line."""
    typer.echo(printable(line), err=err)
