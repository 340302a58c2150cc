from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
import typer

from elastream.cli.command_rules import fields_of_a_file, with_rules
from elastream.model.errors import ProblemError

ROOT = Path(__file__).parents[2]
OPTION = re.compile(r"--[a-z]")
FLAGS_OF_OTHERS = {
    "src/elastream/spark/sessions/java.py": "what Java is asked, and what Spark says to it",
    "src/elastream/launch/given.py": "options of spark-submit; and of run, while a program runs",
    "src/elastream/launch/session.py": "options of run, while a program runs, not of a command",
    "lab/src/elastream_lab/benchmarks/peers/flink/cluster.py": "what Flink's processes are asked",
    "lab/src/elastream_lab/benchmarks/peers/flink/configuration.py": "what their Java is asked",
    "lab/src/elastream_lab/mechanisms/executor_processes.py": "by what an executor is known",
    "lab/src/elastream_lab/hosts/namespaces.py": "what mount is asked",
    "lab/src/elastream_lab/hosts/network.py": "what mount is asked",
    "lab/src/elastream_lab/hosts/standalone.py": "what Spark's master and workers are asked",
    "lab/src/elastream_lab/fuzz/reading.py": "commands, as a user types them",
    "lab/src/elastream_lab/campaign/marked_processes.py": "by what an executor is known",
    "lab/src/elastream_lab/stores/server.py": "what the S3 server is asked",
    "lab/src/elastream_lab/benchmarks/single_step.py": "times the command, as a user types it",
    "lab/src/elastream_lab/studies/figure.py": "its docstring says which command writes the format",
}


def raised_by(error: ProblemError, *, in_file: bool = False) -> str:
    """What a user reads where a command with options of all kinds raises the error."""
    app = typer.Typer()

    @app.command()
    def command(
        tau: Annotated[float, typer.Option("--tau")] = 0.0,
        trips_a_minute: Annotated[float, typer.Option()] = 0.0,
        least: Annotated[int, typer.Option("--min", "-m")] = 0,
        input_file: Annotated[str, typer.Option("--input")] = "",
        every: Annotated[str, typer.Option("--every")] = "",
        deep: Annotated[bool, typer.Option("--deep/--flat")] = True,
        trace: Annotated[str, typer.Argument()] = "",
    ) -> None:
        del tau, trips_a_minute, least, input_file, every, deep, trace
        if in_file:
            with fields_of_a_file():
                raise error
        raise error

    named = with_rules(typer.main.get_command(app))
    with pytest.raises(ProblemError) as raised:
        named(args=[], standalone_mode=False)
    return str(raised.value)


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("tau", "--tau"),
        ("trips_a_minute", "--trips-a-minute"),
        ("least", "--min"),
        ("min", "--min"),
        ("input", "--input"),
        ("input_file", "--input"),
        ("every_s", "--every"),
        ("deep", "--deep"),
        ("tau[3]", "--tau[3]"),
        ("tau.low", "--tau.low"),
    ],
)
def test_a_field_is_reported_as_the_option_that_gave_it(field: str, option: str) -> None:
    assert raised_by(ProblemError(field, "is wrong")) == f"{option}: is wrong"


@pytest.mark.parametrize("field", ["trace", "taus", "goal.tau", "some/file.json", "--tau", ""])
def test_what_is_no_option_keeps_its_name(field: str) -> None:
    error = ProblemError(field, "is wrong")
    assert raised_by(error) == str(error)


def test_fields_in_the_text_become_options_where_they_are_quoted() -> None:
    error = ProblemError("least", "3 is above `trips_a_minute`, and tau is not `work`")
    assert raised_by(error) == "--min: 3 is above --trips-a-minute, and tau is not `work`"


def test_a_field_of_a_file_is_no_option_whatever_its_name() -> None:
    assert raised_by(ProblemError("tau", "is `least`"), in_file=True) == "tau: is `least`"


def literals(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_below_the_command_line_nothing_knows_the_names_of_options() -> None:
    knowing = {
        file.relative_to(ROOT).as_posix()
        for tree in ("src/elastream", "lab/src/elastream_lab")
        for file in (ROOT / tree).rglob("*.py")
        if not {"cli", "commands", "commands.py"} & set(file.relative_to(ROOT / tree).parts[:2])
        if any(OPTION.search(text) for text in literals(file))
    }
    assert knowing == set(FLAGS_OF_OTHERS)
