"""The one place where the names of fields become the names of options.

What lies below the command line knows its fields by their Python names and says ``seed: -1 is too
small``; a mention of another field within the text stands between backquotes. Here the command's
own options take their place: ``--seed: -1 is too small``. An option is known by the name of the
command's parameter, by its own spelling, and as a length of time also by its seconds (``every_s``
for ``--every 15m``). The fields of a file keep their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from elastream.model.errors import ProblemError

_Command = TypeVar("_Command")
_MENTION: Final = re.compile(r"`(\w+)`")


class _FileFieldError(ProblemError):
    """A field of a file is wrong, which no option is, whatever their names."""


def with_option_names(command: _Command) -> _Command:
    """Return the command, which and whose subcommands name options where a field is wrong."""
    subcommands = getattr(command, "commands", None)
    for subcommand in (subcommands or {}).values():
        with_option_names(subcommand)
    if subcommands is None:
        _wrap(command)
    return command


@contextmanager
def fields_of_a_file() -> Iterator[None]:
    """Let wrong fields keep their names, where a command has options of the same names."""
    try:
        yield
    except ProblemError as error:
        raise _FileFieldError(error.field, error.why) from None


def _wrap(command: Any) -> None:
    invoke, options = command.invoke, _options(command)

    def named(context: Any) -> Any:
        try:
            return invoke(context)
        except _FileFieldError:
            raise
        except ProblemError as error:
            raise _renamed(error, options) from error

    command.invoke = named


def _options(command: Any) -> dict[str, str]:
    """Return the command's options by every name that fields below may have."""
    options: dict[str, str] = {}
    for parameter in command.params:
        if parameter.param_type_name == "option":
            spelled = parameter.opts[0]
            for name in (parameter.name, spelled.lstrip("-").replace("-", "_")):
                options[name] = options[f"{name}_s"] = spelled
    return options


def _renamed(error: ProblemError, options: Mapping[str, str]) -> ProblemError:
    name = re.split(r"[.\[]", error.field)[0]
    field = options.get(name, name) + error.field[len(name) :]
    return ProblemError(
        field, _MENTION.sub(lambda found: options.get(found[1], found[0]), error.why)
    )
