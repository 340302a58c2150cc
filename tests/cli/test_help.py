"""The help says everything that there is in whole sentences, and loads next to nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from tests.cli.test_every_option import COMMANDS

from elastream.cli import command_table, commands
from elastream.cli.main import main
from elastream.registry import GOALS, PLANNERS, installed

GROUPS = [name for name, command in COMMANDS.items() if hasattr(command, "commands")]
HEAVY = ("numpy", "scipy", "numba", "pyspark", "pyarrow", "matplotlib", "rich", "py4j")


@pytest.mark.parametrize("group", GROUPS)
def test_every_command_has_its_whole_summary_in_one_line(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*group.split(), "--help"]) == 0
    whole = capsys.readouterr().out
    _, _, table = whole.partition("Commands:\n")
    lines = dict(re.split(r" +", line.strip(), maxsplit=1) for line in table.splitlines())
    prefix = f"{group} " if group else ""
    summaries = {
        name.removeprefix(prefix): COMMANDS[name].get_short_help_str(1000)
        for name in COMMANDS
        if name and name.rpartition(" ")[0] == group
    }
    assert lines == summaries
    assert max(map(len, (table if group else whole).splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_no_help_is_cut(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help"]) == 0
    cut = [line for line in capsys.readouterr().out.splitlines() if line.endswith("...")]
    assert [line for line in cut if not line.startswith("Usage: ")] == []


def imported_by(arguments: str) -> set[str]:
    """The modules that the command imports, of those that take their time."""
    program = (
        "import sys; from elastream.cli.main import main; code = main(sys.argv[1:]);"
        f"print([name for name in {(*HEAVY, 'typer')} if name in sys.modules]); sys.exit(code)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments.split()],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(re.findall(r"'(\w+)'", ran.stdout.splitlines()[-1]))


def test_the_version_is_printed_without_a_library() -> None:
    assert imported_by("--version") == set()


def test_the_list_of_commands_is_printed_without_a_library() -> None:
    assert imported_by("--help") == set()


@pytest.mark.parametrize("group", [group for group in GROUPS if group])
def test_help_of_groups_imports_typer_alone(group: str) -> None:
    assert imported_by(f"{group} --help") == {"typer"}


def offer(monkeypatch: pytest.MonkeyPatch, folder: Path, source: str) -> None:
    """Let a package of somebody else's offer the command ``other``."""
    (folder / "others_command.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
    entry = EntryPoint("other", "others_command:command", "elastream.commands")
    monkeypatch.setattr(command_table, "installed", lambda _: {"other": entry})
    monkeypatch.setattr(commands, "root", commands.root.__wrapped__)
    monkeypatch.setattr(command_table, "entries", command_table.entries.__wrapped__)
    monkeypatch.setattr(commands, "entries", command_table.entries)
    monkeypatch.delitem(sys.modules, "others_command", raising=False)


@pytest.mark.parametrize(
    "source",
    [
        'raise SystemError\ndef command() -> None:\n    """Do something else. And more."""',
        'raise SystemError\ncommand = typer.Typer(help="Do something else. And more.")',
        'def made():\n    def inner():\n        """Do something else."""\n    return inner\n'
        "command = made()",
    ],
    ids=["function", "application", "made at run time"],
)
def test_a_command_of_others_has_its_summary_too(
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    offer(monkeypatch, tmp_path, source)
    assert main(["--help"]) == 0
    assert re.search(r"^  other +Do something else\.$", capsys.readouterr().out, re.MULTILINE)


def test_a_command_that_cannot_be_loaded_says_why_when_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(monkeypatch, tmp_path, "import nowhere_at_all\ncommand = nowhere_at_all.command\n")
    assert main(["--help"]) == 0
    assert "other " not in capsys.readouterr().out
    assert main(["other"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("elastream: the command other of others_command:command cannot be load")
    assert "nowhere_at_all" in error


def test_the_help_of_run_lists_the_goals_and_planners_that_are_installed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--help"]) == 0
    text = "".join(capsys.readouterr().out.split())
    for group in (GOALS, PLANNERS):
        *others, last = sorted(installed(group))
        assert f"{','.join(others)}or{last}" in text
