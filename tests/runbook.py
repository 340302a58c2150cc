"""Every reason to refuse a request, or to give up a change or a handover, as the source has it.

What is filled in at run time is shown as ``…``. A reason is a text, a name that a text was given in
the same function, or what a function of the same package returns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import elastream

__all__ = ["abandons", "handover_endings", "refusals"]

ROOT = Path(elastream.__file__ or "").parent
FILLED_IN = "…"
_REASON_OF = {"abandon_change": 2, "note_abandoned": 2, "plan_again": 2}
"""The place of the reason among the arguments of each."""
_ENDING_OF = {"_aborted": 2, "_left": 1, "_refused_to_yield": 1, "Abort": 2, "Refuse": 1}
"""The same of handovers."""


def abandons() -> set[str]:
    """Reasons for which a change is given up, at once or when planning anew has not helped."""
    return set(_reasons("core", _abandoning))


def refusals() -> set[str]:
    """Reasons for which a request is refused."""
    return set(_reasons("core", _refusing))


def handover_endings() -> set[str]:
    """Reasons for which one side of a handover refuses it, or ends it before its commit."""
    return set(_reasons("handover", _ending))


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


def _ending(call: ast.Call) -> ast.expr | None:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in _ENDING_OF:
            place = _ENDING_OF[name]
            return call.args[place] if len(call.args) > place else None
    return None


def _reasons(package: str, reason_of: object) -> Iterator[str]:
    assert callable(reason_of)
    paths = sorted((ROOT / package).rglob("*.py"))
    modules = [ast.parse(path.read_text()) for path in paths if "testing" not in path.parts]
    each_has = [
        [each for each in ast.walk(module) if isinstance(each, ast.FunctionDef)]
        for module in modules
    ]
    everywhere = [function for functions in each_has for function in functions]
    for functions in each_has:
        for function in functions:
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and (reason := reason_of(call)) is not None:
                    yield from _texts(reason, function, functions, everywhere)


def _texts(
    reason: ast.expr,
    function: ast.FunctionDef,
    functions: list[ast.FunctionDef],
    everywhere: list[ast.FunctionDef],
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
                    case (
                        ast.Assign(targets=[ast.Name(id=target)], value=value)
                        | ast.NamedExpr(target=ast.Name(id=target), value=value)
                    ) if target == name:
                        yield from _texts(value, function, functions, everywhere)
        case ast.IfExp(body=first, orelse=second):
            yield from _texts(first, function, functions, everywhere)
            yield from _texts(second, function, functions, everywhere)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            own = [each for each in functions if each.name == name]
            for called in own or [each for each in everywhere if each.name == name]:
                for statement in ast.walk(called):
                    if isinstance(statement, ast.Return) and statement.value is not None:
                        yield from _texts(statement.value, called, functions, everywhere)
