from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.handover.spark.grouped_sums import grouped_sums

from elastream.cli.main import main
from elastream.handover.spark.windowed import WindowedQuery
from elastream_lab.applications.readings.source import Readings

KNOWN = "tests.handover.commands.test_handover:no_query"
SUMS = "tests.handover.commands.test_handover:sums"


def no_query() -> str:
    return "a text"


def sums() -> WindowedQuery:
    return grouped_sums(Readings(0), length_ms=10, slide_ms=10)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["serve", "sums"], "QUERY: 'sums' is not module:function"),
        (["serve", "no.such:sums"], "QUERY: 'no.such:sums' cannot be found: No module named"),
        (["serve", "json:sums"], "QUERY: 'json:sums' cannot be found"),
        (["serve", KNOWN], f"QUERY: '{KNOWN}' gives 'a text', not a WindowedQuery"),
        (["join", "sums", "here:1", "--token-file", "x"], "QUERY: 'sums' is not module:function"),
        (["join", "json:sums"], "Missing argument"),
        (["serve", SUMS, "--conf", "a"], "--conf: 'a' is not KEY=VALUE"),
        (["join", SUMS, "here:1", "--token-file", "x", "--since", "noon"], "--since: 'noon' is"),
        (["serve", SUMS, "--patience", "0.1"], "--patience: 0.1 is below 0.5"),
        (["serve", SUMS, "--patience", "nan"], "--patience: nan"),
        (["serve", SUMS, "--address", "here"], "address: 'here' is not HOST:PORT"),
        (["join", SUMS, "here:1", "--token-file", "none"], "none"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(
    arguments: list[str],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["handover", *arguments]) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "side", [["serve", SUMS], ["join", SUMS, "127.0.0.1:1", "--token-file", "t"]]
)
def test_a_folder_that_is_a_file_is_one_line(
    side: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text("a token that is long enough\n")
    (tmp_path / "t").chmod(0o600)
    (tmp_path / "file").touch()
    assert main(["handover", *side, "--folder", "file"]) == 2
    assert "--folder: file cannot be made: File exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("from tests.handover.commands.test_handover import sums", "--patience: 0.1 is below 0.5"),
        ("def sums(:", "QUERY: 'NAME:sums' fails: SyntaxError: "),
        ("def sums(): return 1 / 0", "QUERY: 'NAME:sums' fails: ZeroDivisionError: "),
        (
            "from elastream.handover import Window\ndef sums(): Window.of('time', 0, 1)",
            "QUERY: 'NAME:sums': window.length: ",
        ),
    ],
)
def test_a_module_in_the_current_folder_is_found_and_its_own_faults_are_one_line(
    text: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = f"queries_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text + "\n")
    assert main(["handover", "serve", f"{name}:sums", "--patience", "0.1"]) == 2
    err = capsys.readouterr().err
    assert line.replace("NAME", name) in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.py"]
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [str(tmp_path), "elsewhere"]
