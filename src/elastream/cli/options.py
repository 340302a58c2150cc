"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError
from elastream.registry import GOALS, PLANNERS, installed

PAGE_PORT: Final = 4060
"""The usual port of a page; Spark's own begin at 4040."""


def _one_of(group: str) -> str:
    *others, last = sorted(installed(group))
    return f"{', '.join(others)} or {last}" if others else last


GOAL = typer.Option(
    "--goal",
    help=f"What shall be achieved: {_one_of(GOALS)}; or module:name, a goal that a module makes, "
    "with settings. Modules next to the program are found too.",
)
PLANNER = typer.Option(
    "--planner", help=f"How the tasks that move are chosen: {_one_of(PLANNERS)}."
)
LOG = typer.Option("--log", help="Write every decision as JSON lines; elastream log reads them.")
PAGE = typer.Option(
    "--page",
    metavar="[PORT]",
    help=f"Show the run in a browser, on this port of this machine ({PAGE_PORT}; 0 takes one that "
    "is free); HOST:PORT lets others look too.",
)
PAGE_NAME = typer.Option(
    "--page-name",
    metavar="NAME",
    help="A host name by which others call the page, in addition to the machine's addresses and "
    "its own name; may be given several times.",
)

LogFile = Annotated[Path, typer.Argument(metavar="FILE", help="A decision log (JSON lines).")]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting that the session has; repeatable."),
]


def settings_of(texts: Sequence[str] | None) -> dict[str, str]:
    """Return the settings that ``Conf`` gives one by one."""
    pairs = [(text, *text.partition("=")) for text in texts or ()]
    for text, name, equals, _ in pairs:
        if not name.strip() or not equals:
            raise ProblemError("conf", f"{abbreviate(text)} is not KEY=VALUE")
    return {name.strip(): value for _, name, _, value in pairs}
