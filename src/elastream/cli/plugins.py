"""Commands of other packages: they join the command line through entry points.

A package names them in the group ``elastream.commands``: ``study = "package.module:app"``, a
:class:`typer.Typer` or a function; ``"trace build"`` puts a command into a group that is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import typer

from elastream.model.errors import ElastreamError

__all__ = ["GROUP", "join"]

GROUP: Final = "elastream.commands"
_LAB: Final = ("bench", "measure", "patterns", "study", "taxi", "trace build", "traffic", "trial")
"""Commands that are known, and where they are not installed say what to install."""


def join(app: typer.Typer, groups: Mapping[str, typer.Typer]) -> None:
    """Add every command that is installed; put a signpost where one of the lab's is not."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    for name in sorted({*found, *_LAB}):
        group, _, own = name.rpartition(" ")
        parent = groups.get(group) if group else app
        if parent is None:
            continue
        if name in found:
            _add(parent, own, found[name])
        else:
            line = f"elastream {name} comes with the lab: pip install elastream-lab"
            _add_signpost(parent, own, line)


def _add(parent: typer.Typer, name: str, entry: EntryPoint) -> None:
    try:
        command = entry.load()
    except Exception as error:
        line = f"the command {entry.name} of {entry.value} cannot be loaded: {error}"
        _add_signpost(parent, name, line)
        return
    if isinstance(command, typer.Typer):
        parent.add_typer(command, name=name)
    else:
        parent.command(name)(command)


def _add_signpost(parent: typer.Typer, name: str, line: str) -> None:
    def told() -> None:
        raise ElastreamError(line)

    anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    parent.command(name, hidden=True, context_settings=anything)(told)
