"""All commands by name; each is imported when it is first used.

The core's commands are in the table here. Those of the wings and of other packages join through
entry points: a package names them in the group ``elastream.commands``, as
``study = "package.module:app"``, a :class:`typer.Typer` or a function; ``"trace build"`` puts a
command into a group. The help of a group takes the summaries of its commands from their source.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from elastream.cli.companions import with_companions
from elastream.cli.examples import with_examples
from elastream.cli.option_names import with_option_names
from elastream.model.errors import ElastreamError
from elastream.registry import COMMANDS, installed

_CORE: Final = {
    "demo": "elastream.cli.demo.command:demo",
    "doctor": "elastream.cli.doctor:doctor",
    "run": "elastream.cli.run:run",
    "plan": "elastream.cli.plan.app:app",
    "log": "elastream.cli.log:log",
    "page": "elastream.cli.page:page",
    "repartition": "elastream.cli.repartition:repartition",
}
_LAB: Final = ("bench", "measure", "patterns", "study", "taxi", "trace build", "traffic", "trial")
"""Where the lab is not installed, these say what to install."""

_CONTEXT: Final = {"run": {"allow_interspersed_args": False}}
"""What follows the program of ``elastream run`` is the program's."""

_PLAIN: Final[Mapping[str, Any]] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}
_UNCUT: Final = 10_000
"""Length to which a summary may grow: the help wraps it."""

_HELP: Final = """Elastic stateful streams on Apache Spark.

Decides how many executors a Structured Streaming query needs and which state partition lives
where, moving provably the least state.

  elastream demo                            watch a stream scale out and in
  elastream doctor                          whether your machine and cluster will do
  elastream run --max-executors 4 app.py    your own program, as it is
  elastream plan single-step problem.json   least state moved, as JSON
  elastream log decisions.jsonl             what was decided, and why
  elastream page decisions.jsonl            the same in the browser
"""


@cache
def root() -> Any:
    """Return the whole command line."""
    app = typer.Typer(name="elastream", help=_HELP, no_args_is_help=True, cls=_Group, **_PLAIN)
    app.callback()(_options)
    return _completed(typer.main.get_group(app), "")


def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Take the options that no command has; ``main`` has printed the version by now."""


class _Commands(MutableMapping[str, Any]):
    """The commands of a group: those it came with, and those that are loaded when looked up."""

    def __init__(self, group: str, loaded: Mapping[str, Any]) -> None:
        self._loaded = dict(loaded)
        self._entries = {
            name.removeprefix(group).strip(): entry
            for name, entry in _entries().items()
            if name.rpartition(" ")[0] == group
        }

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, self._entries[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        self._loaded.pop(name, None)
        self._entries.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._loaded, **self._entries})

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in self._entries

    def __len__(self) -> int:
        return len({**self._loaded, **self._entries})

    def summary(self, name: str) -> str | None:
        """Return the summary of a command, imported only where its source shows none.

        ``None`` for a hidden one.
        """
        if name not in self._loaded:
            text = _help_in_source(self._entries[name])
            if text:
                return TyperCommand(name=name, help=text).get_short_help_str(_UNCUT)
        command = self[name]
        return None if command.hidden else str(command.get_short_help_str(_UNCUT))


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


@cache
def _entries() -> dict[str, EntryPoint]:
    """Return every command by its whole name, the core's first."""
    core = {name: EntryPoint(name, value, COMMANDS) for name, value in _CORE.items()}
    missing = {name: EntryPoint(name, "", COMMANDS) for name in _LAB}
    return core | dict(sorted((missing | dict(installed(COMMANDS))).items())) | core


def _load(name: str, entry: EntryPoint) -> Any:
    """Return a command; in its place, where it cannot be loaded, one that says so."""
    if not entry.value:
        line = f"elastream {entry.name} comes with the lab: pip install elastream-lab"
        return _signpost(name, line)
    try:
        loaded = entry.load()
    except Exception as error:
        line = f"the command {entry.name} of {entry.value} cannot be loaded: {error}"
        return _signpost(name, line)
    app = typer.Typer(**_PLAIN)
    if isinstance(loaded, typer.Typer):
        app.add_typer(loaded, name=name, cls=_Group)
    else:
        app.command(name, context_settings=_CONTEXT.get(entry.name))(loaded)
    return _completed(typer.main.get_group(app).commands[name], entry.name)


def _completed(command: Any, path: str) -> Any:
    """Give a command what all have, and a group the commands that others put into it."""
    command = with_option_names(with_companions(with_examples(command)))
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


def _help_in_source(entry: EntryPoint) -> str | None:
    """Return the help of a function or of a ``typer.Typer(help=...)``, read without importing it.

    ``None`` where the source does not show it: then the command has to be imported.
    """
    try:
        source = find_spec(entry.module).loader.get_source(entry.module)  # type: ignore[union-attr]
        statements = ast.parse(source).body
    except Exception:  # whatever is wrong with it shows when it is loaded
        return None
    for statement in statements:
        match statement:
            case ast.FunctionDef(name=entry.attr):
                return ast.get_docstring(statement)
            case ast.Assign(targets=[ast.Name(id=entry.attr)], value=ast.Call(keywords=given)):
                return next(
                    (inspect.cleandoc(text) for text in map(_help_text, given) if text), None
                )
    return None


def _help_text(given: ast.keyword) -> str | None:
    match given:
        case ast.keyword(arg="help", value=ast.Constant(value=str(text))):
            return text
    return None
