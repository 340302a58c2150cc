"""Lines for people, whose text may be that of others: it is shown and never acted on.

Every command writes its lines through here and its tables through :mod:`elastream.cli.screen`. Data
(JSON) goes to standard output as it is.
"""

from __future__ import annotations

import typer

from elastream.model.words import printable


def say(line: str, *, err: bool = False) -> None:
    """Write one line; what a terminal would act on is escaped."""
    typer.echo(printable(line), err=err)
