from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elastream.cli.main import main
from elastream_lab.benchmarks.elasticity.run import Progress, WayResult
from elastream_lab.benchmarks.elasticity.settings import ElasticitySettings
from elastream_lab.harness.response_time import Spread

RUN_WAYS = "elastream_lab.benchmarks.elasticity.run.run_ways"
KEYS = {
    "way",
    "exact",
    "executor_seconds",
    "response_ms",
    "overloaded_s",
    "changes",
    "state_bytes_moved",
}
"""Of a run, by the contract."""


def result(way: str, *, exact: bool = True, cost: float = 1310.04) -> WayResult:
    return WayResult(
        way=way,
        exact=exact,
        rows=1000,
        took_s=601.26,
        executor_seconds=cost,
        response=Spread(1500.4, 3900.2, 5200.0),
        overloaded_s=4.04,
        changes=6,
        state_bytes_moved=40_000_000,
        executors=((0.0, 1), (100.0, 3), (400.0, 2)),
        waits=((2.0, 1.5), (4.0, 5.2), (6.0, 1.1)),
    )


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the ways come to these results, and the others to errors, without running any."""

    def come_to(*results: WayResult, **failures: BaseException) -> None:
        def run_ways(settings: ElasticitySettings, load: Any, **report: Any) -> None:
            assert len(load.due_ms) > 1000
            for found in results:
                report["say"](f"{found.way}: the load begins")
                report["show"](Progress(found.way, 1.0, 10, 1000, 2))
                report["done"](found)
            for way, error in failures.items():
                if not isinstance(error, Exception):
                    raise error
                report["failed"](way, error)
            assert settings.seconds == 600

        monkeypatch.setattr(RUN_WAYS, run_ways)

    return come_to


def test_the_summary_has_the_names_of_the_contract(
    ran: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(result("fixed-max", cost=2400.0), result("elastream"))
    file, picture = tmp_path / "e.json", tmp_path / "e.svg"
    assert main(["bench", "elasticity", "--json", str(file), "--picture", str(picture)]) == 0
    summary = json.loads(file.read_text())
    assert {"load", "seconds", "runs"} <= set(summary)
    assert summary["seconds"] == 600
    assert summary["made"] is True
    assert "made" in summary["load"]
    assert "error" not in summary
    most, elastream = summary["runs"]
    assert set(most) >= KEYS
    assert elastream["way"] == "elastream"
    assert elastream["executor_seconds"] == 1310.0
    assert elastream["response_ms"] == {"median": 1500, "p99": 3900, "worst": 5200}
    assert (elastream["overloaded_s"], elastream["changes"]) == (4.0, 6)
    assert elastream["state_bytes_moved"] == 40_000_000
    assert 600 < summary["oracle"]["executor_seconds"] < 2400
    assert summary["oracle"]["executors"][0] == [0.0, 1]
    assert set(summary["oracle"]["response_ms"]) == {"median", "p99", "worst"}
    assert "<svg" in picture.read_text()
    shown = capsys.readouterr().out
    assert "oracle" in shown
    assert "made day" in shown
    assert "0.55" in shown, "of what the most executors cost"
    assert "every word slept 1000 µs" in shown


def test_a_way_that_fails_is_reported_next_to_what_the_others_came_to(
    ran: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(result("fixed-max"), elastream=RuntimeError("no\nexecutor"))
    file = tmp_path / "e.json"
    assert main(["bench", "elasticity", "--json", str(file)]) == 1
    summary = json.loads(file.read_text())
    assert [run["way"] for run in summary["runs"]] == ["fixed-max"]
    assert summary["error"] == "elastream: no executor"
    assert "elastream: no executor" in capsys.readouterr().out


def test_a_wrong_count_is_no_success(ran: Callable[..., None], tmp_path: Path) -> None:
    ran(result("elastream", exact=False))
    file = tmp_path / "e.json"
    assert main(["bench", "elasticity", "--json", str(file)]) == 1
    assert json.loads(file.read_text())["runs"][0]["exact"] is False


def test_an_interrupt_leaves_what_there_is(ran: Callable[..., None], tmp_path: Path) -> None:
    ran(result("fixed-max"), interrupted=KeyboardInterrupt())
    file = tmp_path / "e.json"
    assert main(["bench", "elasticity", "--json", str(file)]) == 130
    summary = json.loads(file.read_text())
    assert (len(summary["runs"]), summary["error"]) == (1, "interrupted")


def test_a_load_that_is_none_is_reported_before_anything_starts(
    ran: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(interrupted=AssertionError("something was started"))
    load = tmp_path / "load.csv"
    load.write_text("a,b\n1,2\n")
    json_file = tmp_path / "e.json"
    assert main(["bench", "elasticity", "--load", str(load), "--json", str(json_file)]) == 2
    line = capsys.readouterr().err
    assert line == f"elastream: --load: {load} has no column of times; it has a, b\n"
    assert not json_file.exists()
