"""No option of any command can break without a test that says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.every_option import CALLS, Call
from tests.foresight.traces.recorded import sample

from elastream.cli.commands import root
from elastream.cli.main import main
from elastream.core.decision_log import DecisionLog
from elastream.core.decisions import Decision
from elastream.foresight.traces.from_log import trace_from_log
from elastream.model.observation import TaskId

STEP = {"work": [3, 1, 2, 4], "state": [10, 5, 0, 7], "current": [[0, 3], [3, 4]]}
TARGET = {"nodes": 3, "tau": 0.6}
CHAIN = {"sizes": [2, 3], "matrix": [[0.5, 0.5], [0.5, 0.5]], "gamma": 0.8}
FILES: dict[str, Any] = {
    "problem.json": STEP | TARGET,
    "sequence.json": STEP | {"targets": [TARGET]},
    "transition.json": STEP | TARGET | {"chain": CHAIN},
    "values.json": {name: STEP[name] for name in ("work", "state")} | {"tau": 0.6, "chain": CHAIN},
    "resilient.json": {"load": [[1, 0], [0, 1]], "capacity": [1, 1]},
    "chain.json": CHAIN,
}


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command that a user may call, with its whole name."""
    if not command.hidden:
        yield name, command
    for own, subcommand in getattr(command, "commands", {}).items():
        yield from commands(subcommand, f"{name} {own}".strip())


def options(command: Any) -> list[str]:
    return [
        option
        for parameter in command.params
        if parameter.param_type_name == "option"
        for option in (*parameter.opts, *parameter.secondary_opts)
    ]


COMMANDS = dict(commands(root()))


def test_there_is_a_call_for_every_option_of_every_command() -> None:
    there = {name: sorted(options(command)) for name, command in COMMANDS.items()}
    called = {name: sorted(call.option for call in CALLS.get(name, ())) for name in there}
    assert called == there
    assert set(CALLS) <= set(there)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_every_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert [option for option in options(COMMANDS[name]) if option not in shown] == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one file of each kind that commands read, in which they are called."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "text").write_text("words\n")
    (tmp_path / "token").write_text("of sixteen or more characters\n")
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "secret").write_text("of-sixteen-or-more-characters\n")
    (tmp_path / "secret").chmod(0o600)
    log = DecisionLog(tmp_path / "log.jsonl")
    log.append(Decision(0, None, "attach", "attached", 2))
    tasks = {TaskId("q", 0, partition): (0.5, 100) for partition in range(4)}
    for minute, executors in enumerate(["ab", "ab", "abc", "ab", "abc"]):
        log.append(sample(60 * minute, executors, tasks, {"q": 10.0}))
    trace_from_log(tmp_path / "log.jsonl", tmp_path / "trace")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "call"),
    [
        pytest.param(name, call, id=f"{name} {call.option}".strip())
        for name, calls in CALLS.items()
        for call in calls
    ],
)
def test_the_option_reaches_what_it_is_for(
    name: str,
    call: Call,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for whole, instead in call.instead.items():
        monkeypatch.setattr(whole, instead)
    before = contents(folder)
    assert call.option in call.arguments.split()
    code = main([*name.split(), *call.arguments.split()])
    shown = capfd.readouterr()
    assert (code, call.says in shown.out + shown.err) == (call.code, True), shown
    if call.code == 2 and not call.instead:
        assert shown.err.count("\n") == 1
        assert shown.out == ""
        assert contents(folder) == before


@pytest.mark.parametrize(
    ("name", "call"),
    [
        pytest.param(name, call, id=f"{name} {call.option}")
        for name, calls in CALLS.items()
        for call in calls
        if call.code == 2 and not call.instead
        if "--json" in options(COMMANDS[name]) and "--json" not in call.arguments
    ],
)
def test_bad_input_leaves_what_an_earlier_run_wrote(name: str, call: Call, folder: Path) -> None:
    (folder / "earlier.json").write_text("[]\n")
    before = contents(folder)
    assert main([*name.split(), *call.arguments.split(), "--json", "earlier.json"]) == 2
    assert contents(folder) == before


def contents(folder: Path) -> dict[str, bytes]:
    """What is in the folder, by file."""
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
