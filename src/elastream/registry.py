"""Goals, planners and commands by name, of elastream, its wings and other packages.

A package offers them through entry points. In the group ``elastream.goals`` an entry is a goal or a
function that returns one. In ``elastream.planners`` it is a planner
(:class:`~elastream.core.goal.MadePlanner`) or one that learns
(:class:`~elastream.core.learning.LearningPlanner`). In ``elastream.commands`` it is a Typer
application or a function. In ``elastream.programs`` it is another way to run a program than
``elastream run`` has, a function of the program, its settings and the file to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError
from elastream.model.words import printable

COMMANDS: Final = "elastream.commands"
GOALS: Final = "elastream.goals"
PLANNERS: Final = "elastream.planners"
PROGRAMS: Final = "elastream.programs"


@cache
def installed(group: str) -> Mapping[str, EntryPoint]:
    """Return the entries of a group by name; elastream's own win over others of the same name."""
    entries = sorted(entry_points(group=group), key=_is_ours)
    return {entry.name: entry for entry in entries}


def load(group: str, name: str, *, field: str, otherwise: str = "") -> Any:
    """Return what is installed under a name; raise ``ProblemError`` about ``field`` if nothing is.

    ``otherwise`` is what else the field takes, for the message.
    """
    entry = installed(group).get(name)
    if entry is None:
        known = ", ".join(sorted(installed(group)))
        raise ProblemError(field, f"{abbreviate(name)} is not one of {known}{otherwise}")
    try:
        return entry.load()
    except Exception as error:  # whatever the module of another package raises
        why = printable(f"{type(error).__name__}: {error}")
        raise ProblemError(field, f"{name} of {entry.value} cannot be loaded: {why}") from None


def _is_ours(entry: EntryPoint) -> bool:
    return entry.value.startswith("elastream.")
