"""Rules that hold for every command, put around what Typer makes of a function.

- Indented paragraphs of a help, such as examples, keep their lines.
- An option that means something only with another one is refused alone, never ignored. Its help
  says so: ``With --act: how plans are carried out`` needs ``--act``. Where several are named,
  ``or`` asks for one of them and ``and`` for all.
- A wrong field is reported by the name of its option. What lies below the command line knows its
  fields by their Python names: ``seed: -1 is too small`` becomes ``--seed: -1 is too small``. A
  mention of another field within the text stands between backquotes. An option is known by the name
  of the command's parameter, by its own spelling, and as a length of time also by its seconds
  (``every_s`` for ``--every 15m``). The fields of a file keep their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from elastream.model.errors import ProblemError

_Command = TypeVar("_Command")
_UNWRAPPED: Final = "\b\n"
"""How a paragraph begins that is not to be wrapped."""
_WITH: Final = re.compile(r"With (--[\w-]+(?: (?:or|and) --[\w-]+)*): ")
_MENTION: Final = re.compile(r"`(\w+)`")


class _FileFieldError(ProblemError):
    """A field of a file is wrong, which no option is, whatever their names."""


@contextmanager
def fields_of_a_file() -> Iterator[None]:
    """Let wrong fields keep their names, where a command has options of the same names."""
    try:
        yield
    except ProblemError as error:
        raise _FileFieldError(error.field, error.why) from None


def with_rules(command: _Command) -> _Command:
    """Return the command, which keeps the rules, and whose subcommands do."""
    text = getattr(command, "help", None)
    if text:
        command.help = "\n\n".join(map(_kept, text.split("\n\n")))  # type: ignore[attr-defined]
    subcommands = getattr(command, "commands", None)
    for subcommand in (subcommands or {}).values():
        with_rules(subcommand)
    if subcommands is None:
        _wrap(command)
    return command


def _kept(paragraph: str) -> str:
    indented = all(line.startswith("  ") for line in paragraph.splitlines() if line)
    return _UNWRAPPED + paragraph if paragraph.strip() and indented else paragraph


def companions(command: Any) -> Iterator[tuple[Any, str]]:
    """Yield the parameters that need others, with these others as the help names them."""
    for parameter in command.params:
        named = _WITH.match(getattr(parameter, "help", None) or "")
        if named is not None:
            yield parameter, named[1]


def _wrap(command: Any) -> None:
    invoke, options = command.invoke, _options(command)

    def checked(context: Any) -> Any:
        _expect_companions(command, context)
        try:
            return invoke(context)
        except _FileFieldError:
            raise
        except ProblemError as error:
            raise _renamed(error, options) from error

    command.invoke = checked


def _expect_companions(command: Any, context: Any) -> None:
    parameter_of = {option: one.name for one in command.params for option in one.opts}

    def given(option: str) -> bool:
        return str(context.get_parameter_source(parameter_of[option]).name) != "DEFAULT"

    for parameter, needed in companions(command):
        enough = all if " and " in needed else any
        option = parameter.opts[0]
        if given(option) and not enough(map(given, re.split(" or | and ", needed))):
            raise ProblemError(option, f"means something only with {needed}")


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
    why = _MENTION.sub(lambda found: options.get(found[1], found[0]), error.why)
    return ProblemError(field, why)
