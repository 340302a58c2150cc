"""Names and reasons of others are shown: they are not markup, and no terminal acts on them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.panel import Panel
from tests.demo.test_summary import LOOP, QUERY, executor

import elastream
from elastream import Policy
from elastream.attachment.summary import summary_text
from elastream.cli.demo.view import partition_map
from elastream.cli.main import main
from elastream.cli.screen import Screen, literal
from elastream.core.decision_log import DecisionLog
from elastream.core.decisions import Decision
from elastream.core.explaining import explained
from elastream.core.scenes import Scene, SceneTask
from elastream.doctor.findings import Finding, Report
from elastream.foresight.commands.progress import progress
from elastream.launch.reporting import report
from elastream.model.observation import TaskId
from elastream.model.words import printable
from elastream.testing import SimulatedCluster, even_workload, rate_steps, simulated

CLEAR = "\x1b[2J\x1b]0;title\x07"
"""Clears the screen and changes the window's title."""
MARKUP = ["[/bold]", "[red]", "[link=http://evil.example]a", ":smile:"]
NAMES = [*MARKUP, f"q{CLEAR}", "a\rb", "\x9b2J", "\u202ehsals", "\ud800"]


def is_harmless(output: str) -> bool:
    return all(line.isprintable() for line in output.split("\n"))


def words(output: str) -> str:
    """What is written, however a table has broken the lines."""
    return "".join(output.split())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders, größer → 1", "orders, größer → 1"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("\x9b2J", r"\x9b2J"),
        ("\u202eabc", r"\u202eabc"),
        ("\ud800", r"\ud800"),
        ("[/bold]", "[/bold]"),
    ],
)
def test_what_a_terminal_would_act_on_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_log_shows_names_and_reasons_as_they_are(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    log = DecisionLog(tmp_path / "log.jsonl")
    log.append(Decision(0, 1, "hold", "quiet", 2, query="other"))
    log.append(Decision(0, 1, "migrate", f"because of {name}", 2, query=name))
    assert main(["log", str(tmp_path / "log.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert is_harmless(shown)
    assert words(shown).count(words(printable(name))) == 2


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_plan_that_is_drawn_shows_names_as_they_are(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    operator = {"name": "o", "inputs": [name], "cost": 1, "selectivity": 1}
    graph = {"inputs": [name], "operators": [operator]}
    file = tmp_path / "problem.json"
    file.write_text(json.dumps({"graph": graph, "capacity": [1, 1]}))
    code = main(["plan", "resilient", str(file), "--draw"])
    drawn = capsys.readouterr()
    assert code == 0, drawn.err
    assert is_harmless(drawn.err)
    assert words(printable(name)) in words(drawn.err)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_findings_of_the_doctor_show_what_was_found_as_it_is(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    findings = (Finding(f"a {name}", "ok", f"found {name}"), Finding("b", "fail", f"of {name}"))
    monkeypatch.setattr("elastream.doctor.examination.examined", lambda *_: Report(findings))
    assert main(["doctor"]) == 2
    shown = capsys.readouterr()
    assert is_harmless(shown.out)
    assert is_harmless(shown.err)
    assert words(shown.out).count(words(printable(name))) == 3
    assert words(printable(" ".join(name.split()))) in words(shown.err)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_errors_are_one_line_that_shows_what_is_wrong(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = name.replace("/", "_").replace("\ud800", "x")
    for arguments in (["log", file], ["page", file], ["trace", "from-log", file, "--out", "t"],
                      ["plan", file], [file]):  # fmt: skip
        assert main(arguments) == 2
        shown = capsys.readouterr()
        assert is_harmless(shown.err)
    report(f"the query {name} is\nrefused")
    shown = capsys.readouterr()
    assert is_harmless(shown.err)
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_screen_shows_a_map_and_a_panel_as_they_are(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = StringIO()
    screen = Screen()
    screen.file = text
    tasks = {TaskId(query, 0, 0): SceneTask(name, 0.1, 10) for query in (name, "other")}
    scene = Scene(0, LOOP, {name: executor(0.5)}, {name: QUERY, "other": QUERY}, tasks, None)
    screen.print(partition_map(scene))
    screen.print(Panel(literal(name), title=literal(f"demo: {name}")))
    screen.print(f"shown: {name}")
    assert is_harmless(text.getvalue())
    assert words(text.getvalue()).count(words(printable(name))) == 4


@pytest.mark.parametrize("name", ["[/bold]", "[red]"])
def test_a_bar_takes_its_text_as_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = StringIO()
    monkeypatch.setattr("sys.stderr", text)
    with progress(name, 2) as tell:
        tell(1, f"round {name}")
    assert name in text.getvalue()


def test_an_attachment_shows_names_as_they_are() -> None:
    workload = even_workload(4, rate_steps({0: 1000}), name=f"q{CLEAR}")
    cluster = SimulatedCluster([workload])
    loop = simulated(cluster, Policy(max_executors=2, patience=1))
    with loop:
        cluster.advance(30)
        shown = summary_text(loop.state)
        explanation = explained(loop.state)
    assert printable(f"q{CLEAR}") in shown
    assert is_harmless(shown)
    assert "\n" in explanation
    assert is_harmless(explanation)


def calls(path: Path) -> Iterator[str]:
    """Yield the names of the functions that a module calls."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


WRITES = {
    "cli/terminal.py": "say",
    "launch/reporting.py": "report",
    "launch/program.py": "what Python itself prints of a program",
    "cli/main.py": "the help, where a command is misused; the version",
    "cli/quiet.py": "a line without text of others",
    "cli/run.py": "the path of the launcher",
    "cli/plan/printing.py": "JSON",
    "cli/doctor.py": "JSON",
    "cli/log.py": "JSON",
    "cli/control.py": "JSON",
    "foresight/commands/trace.py": "JSON",
}


def test_lines_and_tables_are_written_in_one_place() -> None:
    folder = Path(elastream.__file__).parent
    found = {path.relative_to(folder).as_posix(): set(calls(path)) for path in folder.rglob("*.py")}
    writers = {name for name, called in found.items() if called & {"print", "typer.echo"}}
    assert writers == WRITES.keys()
    assert [name for name, called in found.items() if "Console" in called] == []
