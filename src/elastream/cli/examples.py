"""The examples in the help of commands: their lines stay as they are written."""

from __future__ import annotations

from typing import TypeVar

_UNWRAPPED = "\b\n"
"""How a paragraph begins that is not to be wrapped."""
_Command = TypeVar("_Command")


def with_examples(command: _Command) -> _Command:
    """Return the command, in whose help and its subcommands' indented paragraphs are kept."""
    text = getattr(command, "help", None)
    if text:
        command.help = "\n\n".join(map(_kept, text.split("\n\n")))  # type: ignore[attr-defined]
    for subcommand in getattr(command, "commands", {}).values():
        with_examples(subcommand)
    return command


def _kept(paragraph: str) -> str:
    indented = all(line.startswith("  ") for line in paragraph.splitlines() if line)
    return _UNWRAPPED + paragraph if paragraph.strip() and indented else paragraph
