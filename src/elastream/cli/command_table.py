"""All commands by name, and the help that lists them, without importing any of them.

The core's commands are in the table here. Those of the wings and of other packages join through
entry points: a package names them in the group ``elastream.commands``, as
``study = "package.module:app"``, a :class:`typer.Typer` or a function; ``"trace build"`` puts a
command into a group. Summaries are read from the source of a command. Typer alone takes longer to
import than the whole help may take.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from typing import Final

from elastream.model.words import printable
from elastream.registry import COMMANDS, installed

_CORE: Final = {
    "demo": "elastream.cli.demo.command:demo",
    "doctor": "elastream.cli.doctor:doctor",
    "run": "elastream.cli.run:run",
    "control": "elastream.cli.control:control",
    "plan": "elastream.cli.plan.app:app",
    "log": "elastream.cli.log:log",
    "page": "elastream.cli.page:page",
    "repartition": "elastream.cli.repartition:repartition",
}
_LAB: Final = ("bench", "measure", "patterns", "study", "taxi", "trace build", "traffic", "trial")
"""Where the lab is not installed, these say what to install."""

_HELP: Final = """\
Usage: elastream [OPTIONS] COMMAND [ARGS]...

  Elastic stateful streams on Apache Spark.

  Decides how many executors a Structured Streaming query needs and which
  state partition lives where, moving provably the least state.

    elastream demo                            watch a stream scale out and in
    elastream doctor                          check your machine and cluster
    elastream run --max-executors 4 app.py    your own program, as it is
    elastream plan single-step problem.json   least state moved, as JSON
    elastream log decisions.jsonl             what was decided, and why
    elastream page decisions.jsonl            the same in the browser

Options:
  --version  Print the version.
  --help     Show this message and exit.

Commands:
"""


def root_help(loaded_summary: Callable[[EntryPoint], str | None]) -> str:
    """Return the help of ``elastream``, with the whole summary of every command.

    ``loaded_summary`` gives that of a command whose source shows none.
    """
    names = [name for name in entries() if " " not in name]
    summaries = {
        name: summary_in_source(entries()[name]) or loaded_summary(entries()[name])
        for name in names
    }
    width = max(map(len, names))
    return _HELP + "\n".join(
        printable(f"  {name:{width}}  {text}")
        for name, text in summaries.items()
        if text is not None
    )


@cache
def entries() -> dict[str, EntryPoint]:
    """Return every command by its whole name, the core's first."""
    core = {name: EntryPoint(name, value, COMMANDS) for name, value in _CORE.items()}
    missing = {name: EntryPoint(name, "", COMMANDS) for name in _LAB}
    return core | dict(sorted((missing | dict(installed(COMMANDS))).items())) | core


def summary_in_source(entry: EntryPoint) -> str | None:
    """Return the summary of a command as its source shows it, without importing it."""
    text = _help_in_source(entry)
    return first_sentence(text) if text else None


def first_sentence(text: str) -> str:
    """Return the first sentence of a help text, without line breaks."""
    words = re.split(r"\n\s*\n", text.strip())[0].split()
    end = next((at for at, word in enumerate(words, 1) if word.endswith(".")), len(words))
    return " ".join(words[:end])


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
                return ast.get_docstring(statement, clean=False)
            case ast.Assign(targets=[ast.Name(id=entry.attr)], value=ast.Call(keywords=given)):
                return next(filter(None, map(_help_text, given)), None)
    return None


def _help_text(given: ast.keyword) -> str | None:
    match given:
        case ast.keyword(arg="help", value=ast.Constant(value=str(text))):
            return text
    return None
