"""Every reason for which the loop can refuse a request or abandon a change, as its source has it.

What is filled in at run time is shown as ``…``. A reason is a text, a name that a text was given in
the same function, or what a function of the same module returns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import elastream

__all__ = ["abandons", "refusals"]

CORE = Path(elastream.__file__ or "").parent / "core"
FILLED_IN = "…"
_REASON_OF = {"abandon_change": 2, "note_abandoned": 2, "plan_again": 2}
"""The place of the reason among the arguments of each."""


def abandons() -> set[str]:
    """Reasons for which a change is given up, at once or when planning anew has not helped."""
    return {reason for module in _modules() for reason in _reasons(module, _abandoning)}


def refusals() -> set[str]:
    """Reasons for which a request is refused."""
    return {reason for module in _modules() for reason in _reasons(module, _refusing)}


def _modules() -> Iterator[ast.Module]:
    for path in sorted(CORE.rglob("*.py")):
        yield ast.parse(path.read_text())


def _abandoning(call: ast.Call) -> ast.expr | None:
    match call:
        case ast.Call(func=ast.Name(id="note"), args=[_, ast.Constant(value="abandon"), reason]):
            return None if isinstance(reason, ast.Name) else reason  # of note_abandoned itself
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    place = _REASON_OF.get(name)
    return None if place is None else call.args[place]


def _refusing(call: ast.Call) -> ast.expr | None:
    match call:
        case ast.Call(func=ast.Name(id="note"), args=[_, ast.Constant(value="refuse"), reason]):
            return reason
    return None


def _reasons(module: ast.Module, reason_of: object) -> Iterator[str]:
    assert callable(reason_of)
    functions = [each for each in ast.walk(module) if isinstance(each, ast.FunctionDef)]
    for function in functions:
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and (reason := reason_of(call)) is not None:
                yield from _texts(reason, function, functions)


def _texts(
    reason: ast.expr, function: ast.FunctionDef, functions: list[ast.FunctionDef]
) -> Iterator[str]:
    match reason:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else FILLED_IN for part in parts
            )
        case ast.Name(id=name):
            for statement in ast.walk(function):
                match statement:
                    case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                        yield from _texts(value, function, functions)
        case ast.IfExp(body=first, orelse=second):
            yield from _texts(first, function, functions)
            yield from _texts(second, function, functions)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            for called in functions:
                if called.name == name:
                    for statement in ast.walk(called):
                        if isinstance(statement, ast.Return) and statement.value is not None:
                            yield from _texts(statement.value, called, functions)
