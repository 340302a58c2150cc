"""An option that belongs to another one is refused without it, in every command."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typer
from tests.cli.test_every_option import COMMANDS

from elastream.cli.command_rules import companions, with_rules
from elastream.cli.main import main
from elastream.model.errors import ProblemError

NEEDING = [
    pytest.param(name, parameter, needed, id=f"{name} {parameter.opts[0]}")
    for name, command in COMMANDS.items()
    for parameter, needed in companions(command)
]


def test_commands_have_such_options() -> None:
    assert len(NEEDING) > 30


@pytest.mark.parametrize(("name", "parameter", "needed"), NEEDING)
def test_alone_it_is_refused_in_a_line(
    name: str, parameter: Any, needed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    option = parameter.opts[0]
    value = [] if parameter.is_flag else ["20"]
    arguments = ["none.json" for one in COMMANDS[name].params if one.param_type_name == "argument"]
    for one in COMMANDS[name].params:
        if one.required and one.param_type_name == "option":
            arguments += [one.opts[0], "x"]
    assert main([*name.split(), *arguments, option, *value]) == 2
    assert capsys.readouterr().err == f"elastream: {option}: means something only with {needed}\n"


def asked(*arguments: str) -> str:
    """What a command with three such options does when it is called so."""
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    def command(
        one: Annotated[bool, typer.Option("--one")] = False,
        two: Annotated[int, typer.Option("--two")] = 2,
        either: Annotated[int, typer.Option("--either", help="With --one or --two: so.")] = 0,
        both: Annotated[int, typer.Option("--both", help="With --one and --two: so.")] = 0,
        free: Annotated[int, typer.Option("--free", help="With care: so.")] = 0,
    ) -> str:
        return f"{one} {two} {either} {both} {free}"

    try:
        called = with_rules(typer.main.get_command(app))
        return str(called(args=list(arguments), standalone_mode=False))
    except ProblemError as error:
        return str(error)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", "False 2 0 0 0"),
        ("--free 1", "False 2 0 0 1"),
        ("--either 1", "--either: means something only with --one or --two"),
        ("--either 1 --one", "True 2 1 0 0"),
        ("--either 1 --two 2", "False 2 1 0 0"),
        ("--both 1 --one", "--both: means something only with --one and --two"),
        ("--both 1 --one --two 3", "True 3 0 1 0"),
    ],
)
def test_or_asks_for_one_and_and_for_all(arguments: str, text: str) -> None:
    assert asked(*arguments.split()) == text
