"""Options that mean something only beside another one: alone they are refused, never ignored.

The option's help is where this is said, and here it is taken at its word: ``With --act: how plans
are carried out`` needs ``--act``. Where several are named, ``or`` asks for one of them and ``and``
for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeVar

from elastream.model.errors import ProblemError

_Command = TypeVar("_Command")
_WITH: Final = re.compile(r"With (--[\w-]+(?: (?:or|and) --[\w-]+)*): ")


def with_companions(command: _Command) -> _Command:
    """Return the command, which and whose subcommands refuse an option without its companion."""
    subcommands = getattr(command, "commands", None)
    for subcommand in (subcommands or {}).values():
        with_companions(subcommand)
    if subcommands is None:
        _wrap(command)
    return command


def companions(command: Any) -> Iterator[tuple[Any, str]]:
    """Yield the parameters that need others, with these others as the help names them."""
    for parameter in command.params:
        named = _WITH.match(getattr(parameter, "help", None) or "")
        if named is not None:
            yield parameter, named[1]


def _wrap(command: Any) -> None:
    invoke, needing = command.invoke, [*companions(command)]
    parameter_of = {option: one.name for one in command.params for option in one.opts}

    def checked(context: Any) -> Any:
        def given(option: str) -> bool:
            return str(context.get_parameter_source(parameter_of[option]).name) != "DEFAULT"

        for parameter, needed in needing:
            enough = all if " and " in needed else any
            option = parameter.opts[0]
            if given(option) and not enough(map(given, re.split(" or | and ", needed))):
                raise ProblemError(option, f"means something only with {needed}")
        return invoke(context)

    command.invoke = checked
