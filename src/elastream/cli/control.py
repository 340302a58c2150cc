"""``elastream control``: steer a running loop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from elastream.cli.terminal import say
from elastream.model.checks import abbreviate
from elastream.model.errors import ElastreamError, ProblemError

_TARGET = typer.Argument(
    metavar="TARGET",
    help="The socket of elastream run --control, or the URL of a page with a token.",
)
_COMMAND = typer.Argument(
    metavar="COMMAND",
    help="status, scale N, pause, resume, set FIELD=VALUE ..., or detach.",
)
_ARGUMENTS = typer.Argument(metavar="ARGUMENTS", help="What belongs to the command.")
_TOKEN = typer.Option("--token-file", metavar="FILE", help="The file that holds the page's token.")
_CERTIFICATE = typer.Option(
    "--certificate", metavar="FILE", help="A certificate to trust, such as the page's own (PEM)."
)
_JSON = typer.Option("--json", help="Print the answer as JSON.")


def control(
    target: Annotated[str, _TARGET],
    command: Annotated[str, _COMMAND],
    arguments: Annotated[list[str] | None, _ARGUMENTS] = None,
    token_file: Annotated[Path | None, _TOKEN] = None,
    certificate: Annotated[Path | None, _CERTIFICATE] = None,
    json_: Annotated[bool, _JSON] = False,
) -> None:
    """Steer a running loop: pause, resume, scale, set, detach, status.

    A command is checked as a whole, logged with who gave it, and answered with what will happen.
    A policy's fields are set together or not at all; none is the value of a field without one.

      elastream control run.sock status
      elastream control run.sock scale 4
      elastream control run.sock set max_executors=12 movement.copy_ahead=false
      elastream control https://driver:4060 pause --token-file token --certificate page.pem
    """
    from elastream.control.client import ask

    record = _record(command, arguments or [])
    answer = ask(target, record, token_file=token_file, certificate=certificate)
    if json_:
        typer.echo(answer.line())
    elif answer.taken:
        for line in answer.says.splitlines():
            say(line)
    if not answer.taken:
        raise ElastreamError(answer.says)


def _record(command: str, arguments: Sequence[str]) -> dict[str, Any]:
    from elastream.control.commands import COMMANDS

    if command not in COMMANDS:
        known = ", ".join(COMMANDS)
        raise ProblemError("COMMAND", f"{abbreviate(command)} is not one; use {known}")
    if command == "scale":
        if len(arguments) != 1 or not arguments[0].isdecimal() or len(arguments[0]) > 9:
            raise ProblemError("scale", "takes a number of executors")
        return {"command": command, "executors": int(arguments[0])}
    if command == "set":
        pairs = [(text, *text.partition("=")) for text in arguments]
        for text, name, equals, _ in pairs:
            if not name or not equals:
                raise ProblemError("set", f"{abbreviate(text)} is not FIELD=VALUE")
        names = [name for _, name, _, _ in pairs]
        if not names or len(set(names)) < len(names):
            raise ProblemError("set", "takes FIELD=VALUE, each field once")
        return {"command": command, "fields": {name: value for _, name, _, value in pairs}}
    if arguments:
        raise ProblemError(command, f"takes nothing with it, not {json.dumps(arguments[0])}")
    return {"command": command}
