"""Fields of a policy as a person types them: ``tau=0.3``, ``movement.copy_ahead=false``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Final, get_type_hints

from elastream.core.goal import Goal
from elastream.core.policy import Policy, goal_named
from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError

NONE: Final = "none"
"""What a field without a value is called."""
_GROUPS: Final = ("movement", "timeouts")
_TRUTHS: Final = {"true": True, "false": False}


def with_fields(policy: Policy, texts: Mapping[str, str]) -> Policy:
    """Return the policy with these fields, checked as a whole; raises ``ProblemError``.

    A goal and a planner are named; a goal then has its usual settings. Several periods are
    separated by commas.
    """
    own: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {name: {} for name in _GROUPS}
    for name, text in texts.items():
        group, dot, field = name.partition(".")
        if dot and group in groups:
            groups[group][field] = _value(type(getattr(policy, group)), name, field, text)
        else:
            own[name] = _value(Policy, name, name, text)
    changed = {name: replace(getattr(policy, name), **each) for name, each in groups.items()}
    return replace(policy, **changed, **own)


def _value(owner: type, name: str, field: str, text: str) -> Any:
    if field in _GROUPS:
        raise ProblemError(name, f"is a group of fields; set {name}.FIELD")
    if field not in {each.name for each in fields(owner)}:
        raise ProblemError(abbreviate(name), "is not a field of a policy that can be set")
    kind = get_type_hints(owner)[field]
    if kind is Goal:
        return goal_named(text)
    options: tuple[Any, ...] = getattr(kind, "__args__", ())
    if type(None) in options:
        if text.lower() == NONE:
            return None
        kind = options[0]
    try:
        return _READERS.get(kind, _texts if str in options and ... in options else str)(text)
    except (ValueError, KeyError):
        names = {int: "a whole number", float: "a number", bool: "true or false"}
        raise ProblemError(name, f"{abbreviate(text)} is not {names[kind]}") from None


def _texts(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip() not in ("", NONE))


_READERS: Final[Mapping[Any, Callable[[str], Any]]] = {
    int: int,
    float: float,
    bool: lambda text: _TRUTHS[text.lower()],
}
