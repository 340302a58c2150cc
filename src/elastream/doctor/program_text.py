"""The settings and triggers that a program's text has written out, without running it.

Those that are computed are found when the program runs, by the same rules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elastream.model.errors import ProblemError

_MASTER: Final = "spark.master"
_REMOTE: Final = "spark.remote"
_ONE: Final = {"master": _MASTER, "setMaster": _MASTER, "remote": _REMOTE}
"""Methods of one argument that are settings."""
_PAIR: Final = ("config", "set")
_CONTEXT: Final = "SparkContext"


@dataclass(frozen=True, slots=True)
class ProgramText:
    """The settings and triggers of a program."""

    settings: Mapping[str, str]
    """Of the sessions that it builds."""
    triggers: tuple[tuple[str, int], ...]
    """The arguments of its triggers, such as ``realTime``, each with its line."""

    @classmethod
    def read(cls, file: Path) -> ProgramText:
        """Return those of a file; raises ``ProblemError`` where it is not Python."""
        try:
            return cls.of(file.read_bytes())
        except SyntaxError as error:
            where = "" if error.lineno is None else f" in line {error.lineno}"
            raise ProblemError(str(file), f"is not Python{where}: {error.msg}") from None
        except ValueError as error:  # bytes that are not text
            raise ProblemError(str(file), f"is not Python: {error}") from None

    @classmethod
    def of(cls, source: bytes | str) -> ProgramText:
        """Return those of a source text."""
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
        settings = {name: value for call in calls for name, value in _settings(call)}
        triggers = [
            (keyword.arg, call.lineno)
            for call in calls
            if _name(call) == "trigger"
            for keyword in call.keywords
            if keyword.arg is not None
        ]
        return cls(settings, tuple(sorted(triggers, key=lambda each: each[1])))


def _settings(call: ast.Call) -> Iterator[tuple[str, str]]:
    name, values = _name(call), [_written(each) for each in call.args]
    named = {each.arg: _written(each.value) for each in call.keywords}
    if name in _ONE and len(values) == 1 and values[0] is not None:
        yield _ONE[name], values[0]
    elif name in _PAIR and len(values) == 2:
        key, value = values
        if key is not None and value is not None and key.startswith("spark."):
            yield key, value
    elif name == _CONTEXT:
        master = named.get("master") or (values[0] if values else None)
        if master is not None:
            yield _MASTER, master


def _name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _written(node: ast.expr) -> str | None:
    """Return a value that is written out, as Spark spells it; ``None`` for one that is not."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str | int | float):
        return None
    return str(node.value).lower() if isinstance(node.value, bool) else str(node.value)
