"""A path that no file can have is the user's mistake: one line, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastream.cli.main import main

LONG = "a" * 300
READERS = (["log"], ["page", "--port", "0"], ["trace", "from-log", "--out", "trace"])


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must refuse, and return its line."""
    code = main(arguments)
    printed = capsys.readouterr()
    assert (code, printed.out, printed.err.count("\n")) == (2, "", 1), printed.err
    return printed.err


@pytest.mark.parametrize("command", READERS, ids=" ".join)
@pytest.mark.parametrize("path", [".", "", "/", "..", "./.", "missing/"])
def test_a_folder_is_not_a_log(
    command: list[str], path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal([*command, path], capsys)
    assert line.startswith(f"elastream: {Path(path)}: cannot be read: ")


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_a_log_is_read_under_the_longest_name_a_file_can_have(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "a" * 255  # no room for the number of a rotated file
    (tmp_path / name).write_text("hello\n")
    assert refusal([*command, name], capsys).endswith("line 1: is not a decision\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["log", LONG],
        ["page", LONG],
        ["trace", "from-log", LONG, "--out", "trace"],
        ["trace", "chain", "trace", "--out", LONG],
        ["doctor", "--app", LONG],
        ["demo", "--json", LONG],
        ["run", "--max-executors", "2", LONG],
        ["values", "build", "problem.json", "--out", LONG],
    ],
    ids=lambda arguments: " ".join(arguments).replace(LONG, "LONG"),
)
def test_a_name_that_is_too_long_is_not_a_fault_of_ours(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(arguments, capsys)
    assert LONG in line
    assert line.endswith("File name too long\n")
