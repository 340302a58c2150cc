"""Every place in the sources where a file comes to be, found in their syntax."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Written", "written_by"]

_METHODS: Final = frozenset(
    {
        *("write_text", "write_bytes", "touch", "savefig", "savez", "save", "tofile", "to_csv"),
        *("write_table", "parquet", "OSFile", "dump", "copyfile", "copytree", "copy2", "truncate"),
        *("mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryFile", "TemporaryDirectory"),
    }
)
"""Calls of an attribute that make a file or a folder of files, whatever they are called on."""
_OPENERS: Final = frozenset({"open", "fdopen"})
_FLAGS: Final = ("os.O_WRONLY", "os.O_RDWR", "os.O_CREAT", "os.O_APPEND")
_OURS: Final = frozenset({"replacing", "_replacing"})


@dataclass(frozen=True, slots=True, order=True)
class Written:
    """One call that writes."""

    module: str
    function: str
    call: str


def written_by(source: Path, root: Path) -> Iterator[Written]:
    """Yield the calls of a module that write, but for what ``atomic_io`` puts into place."""
    tree = ast.parse(source.read_text())
    module = str(source.relative_to(root))
    yield from (Written(module, *found) for found in _visit(tree, "", within=False))


def _visit(node: ast.AST, function: str, *, within: bool) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.FunctionDef):
        function = node.name
    if isinstance(node, ast.With):
        within = within or any(_name(item.context_expr) in _OURS for item in node.items)
    if isinstance(node, ast.Call) and not within and _writes(node):
        yield function, _name(node) or ""
    for child in ast.iter_child_nodes(node):
        yield from _visit(child, function, within=within)


def _writes(call: ast.Call) -> bool:
    name = _name(call)
    if name in _OPENERS:
        return any(map(_is_write_mode, (*call.args, *(each.value for each in call.keywords))))
    return name in _METHODS and isinstance(call.func, ast.Attribute) and not _is_nowhere(call)


def _is_write_mode(argument: ast.expr) -> bool:
    if isinstance(argument, ast.Constant):
        letters = set(argument.value) if isinstance(argument.value, str) else set()
        return letters <= set("rwabx+t") and not letters <= set("rbt")
    return any(flag in ast.unparse(argument) for flag in _FLAGS)


def _is_nowhere(call: ast.Call) -> bool:
    """Return whether Spark writes to its sink that keeps nothing."""
    return "'noop'" in ast.unparse(call)


def _name(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    called = node.func
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else None
