"""Commands of the wings and of other packages: they join through entry points.

A package names them in the group ``elastream.commands``: ``study = "package.module:app"``, a
:class:`typer.Typer` or a function; ``"trace build"`` puts a command into a group that is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any, Final

import typer

from elastream.model.errors import ElastreamError
from elastream.registry import COMMANDS, installed

__all__ = ["join"]

_LAB: Final = ("bench", "measure", "patterns", "study", "taxi", "trace build", "traffic", "trial")
"""Commands that are known, and where they are not installed say what to install."""


def join(app: typer.Typer, groups: Mapping[str, typer.Typer]) -> None:
    """Add every command that is installed; put a signpost where one of the lab's is not."""
    found, apps = installed(COMMANDS), dict(groups)
    for name in sorted({*found, *_LAB}, key=lambda name: (" " in name, name)):
        group, _, own = name.rpartition(" ")
        parent = apps.get(group) if group else app
        if parent is None:
            continue
        if name not in found:
            line = f"elastream {name} comes with the lab: pip install elastream-lab"
            _add_signpost(parent, own, line)
            continue
        command = _load(parent, own, found[name])
        if isinstance(command, typer.Typer):
            parent.add_typer(command, name=own)
            apps[name] = command
        elif command is not None:
            parent.command(own)(command)


def _load(parent: typer.Typer, name: str, entry: EntryPoint) -> Any:
    """Return the command; put a signpost in its place where it cannot be loaded."""
    try:
        return entry.load()
    except Exception as error:
        line = f"the command {entry.name} of {entry.value} cannot be loaded: {error}"
        _add_signpost(parent, name, line)
        return None


def _add_signpost(parent: typer.Typer, name: str, line: str) -> None:
    def told() -> None:
        raise ElastreamError(line)

    anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    parent.command(name, hidden=True, context_settings=anything)(told)
