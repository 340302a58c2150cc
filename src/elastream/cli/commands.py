"""The command line as Typer runs it; each command is imported when it is first used."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from elastream.cli.command_rules import with_rules
from elastream.cli.command_table import entries, first_sentence, summary_in_source
from elastream.extras import INSTALL_LAB
from elastream.model.errors import ElastreamError

_CONTEXT: Final = {"run": {"allow_interspersed_args": False}}
"""What follows the program of ``elastream run`` is the program's."""

_PLAIN: Final[Mapping[str, Any]] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


@cache
def root() -> Any:
    """Return the whole command line."""
    app = typer.Typer(name="elastream", cls=_Group, **_PLAIN)
    app.callback()(_options)
    return _completed(typer.main.get_group(app), "")


def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Take the options that no command has; ``main`` has printed the version by now."""


class _Commands(UserDict[str, Any]):
    """The commands of a group: those it came with, and those that are loaded when looked up."""

    def __init__(self, group: str, own: Mapping[str, Any]) -> None:
        self._entries = {
            name.removeprefix(group).strip(): entry
            for name, entry in entries().items()
            if name.rpartition(" ")[0] == group
        }
        super().__init__({name: own.get(name) for name in {**own, **self._entries}})

    def __getitem__(self, name: str) -> Any:
        if name in self.data and self.data[name] is None:
            self.data[name] = loaded(name, self._entries[name])
        return self.data[name]

    def summary(self, name: str) -> str | None:
        """Return the summary of a command; ``None`` for a hidden one."""
        command = self.data[name]
        if command is not None:
            return _summary_of(command)
        entry = self._entries[name]
        return summary_in_source(entry) or loaded_summary(entry)


class _Group(TyperGroup):
    """A group whose help has the whole summary of every command."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override] # noqa: ARG002
        """Return the names, without loading anything."""
        return list(self.commands)

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override] # noqa: ARG002
        """Write the names and summaries."""
        assert isinstance(self.commands, _Commands)  # noqa: S101
        summaries = [(name, self.commands.summary(name)) for name in self.commands]
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, text in summaries if text is not None])


def loaded_summary(entry: EntryPoint) -> str | None:
    """Return the summary of a command that has to be imported for it; ``None``: hidden."""
    return _summary_of(loaded(entry.name.rpartition(" ")[2], entry))


def _summary_of(command: Any) -> str | None:
    return None if command.hidden else first_sentence(command.help or "")


def loaded(name: str, entry: EntryPoint) -> Any:
    """Return a command; in its place, where it cannot be loaded, one that says so."""
    if not entry.value:
        return _signpost(name, f"elastream {entry.name} comes with the lab: {INSTALL_LAB}")
    try:
        found = entry.load()
    except Exception as error:
        line = f"the command {entry.name} of {entry.value} cannot be loaded: {error}"
        return _signpost(name, line)
    app = typer.Typer(**_PLAIN)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name, cls=_Group)
    else:
        app.command(name, context_settings=_CONTEXT.get(entry.name))(found)
    return _completed(typer.main.get_group(app).commands[name], entry.name)


def _completed(command: Any, path: str) -> Any:
    """Give a command the rules of all, and a group the commands that others put into it."""
    command = with_rules(command)
    if isinstance(command, _Group):
        command.commands = _Commands(path, command.commands)
    return command


def _signpost(name: str, line: str) -> Any:
    def refuse() -> None:
        raise ElastreamError(line)

    anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app = typer.Typer(**_PLAIN)
    app.command(name, hidden=True, context_settings=anything)(refuse)
    return typer.main.get_group(app).commands[name]
