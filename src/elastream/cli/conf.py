"""Settings of Spark's, as its own commands take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError

Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting that the session has; repeatable."),
]


def settings_of(texts: Sequence[str] | None) -> dict[str, str]:
    """Return the settings that are given one by one."""
    pairs = [(text, *text.partition("=")) for text in texts or ()]
    for text, name, equals, _ in pairs:
        if not name.strip() or not equals:
            raise ProblemError("conf", f"{abbreviate(text)} is not KEY=VALUE")
    return {name.strip(): value for _, name, _, value in pairs}
