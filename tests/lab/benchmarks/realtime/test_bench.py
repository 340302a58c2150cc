"""The Real-time benchmark around its run, and in its smallest form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.lab.benchmarks.realtime.test_figures import CONTRACT, result, results

from elastream.cli.main import main
from elastream.model.errors import ProblemError
from elastream.spark.internals.variants import installed_variant
from elastream_lab.benchmarks.realtime.figures import Stretch
from elastream_lab.benchmarks.realtime.settings import RealtimeSettings
from elastream_lab.cli.bench_realtime import table

BENCH = "elastream_lab.benchmarks.realtime.run.run_realtime"
NEEDS = pytest.mark.skipif(
    not installed_variant().has_stateful_realtime, reason="Real-time Mode with state needs 4.3"
)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"rows_a_second": 0}, "rows_a_second"),
        ({"burst": 0}, "burst"),
        ({"partition_mb": -1}, "partition_mb"),
        ({"batches": 0}, "batches"),
        ({"rounds": 0}, "rounds"),
        ({"trigger_s": 4}, "trigger_s"),
    ],
)
def test_settings_are_checked_when_made(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ProblemError) as refused:
        RealtimeSettings(**wrong)
    assert refused.value.field == field


def test_the_table_shows_the_ratios() -> None:
    stretch = Stretch.of(results(), 0, 30_000)
    console = Console(width=200, record=True)
    console.print(
        table([result("spark", "alone", stretch), result("elastream", "attached", stretch)])
    )
    shown = console.export_text()
    assert "steady median 1.0" in shown
    assert "attached" in shown


@NEEDS
def test_the_summary_is_written_whole_also_where_the_run_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(_: RealtimeSettings, **report: Any) -> None:
        report["done"](result("spark", "alone", Stretch.of(results(), 0, 30_000)))
        report["failed"]("no executor came")

    monkeypatch.setattr(BENCH, ran)
    file = tmp_path / "realtime.json"
    assert main(["bench", "realtime", "--batches", "1", "--json", str(file)]) == 1
    summary = json.loads(file.read_text())
    assert set(summary) == {"settings", "runs", "error"}
    assert summary["settings"]["batches"] == 1
    assert [set(run) >= CONTRACT for run in summary["runs"]] == [True]


@NEEDS
@pytest.mark.slow
def test_a_query_goes_through_every_change_and_a_loss_and_every_row_is_counted_once(
    tmp_path: Path,
) -> None:
    file = tmp_path / "realtime.json"
    small = "--trigger-s 5 --batches 1 --rounds 1 --partition-mb 0 --rows-a-second 50"
    assert main(["bench", "realtime", *small.split(), "--json", str(file)]) == 0
    runs = json.loads(file.read_text())["runs"]
    assert [each["what"] for each in runs] == [
        "alone",
        "attached",
        "new executor",
        "two executors",
        "move",
        "executor leaves",
        "executor killed",
    ]
    assert all(each["exact"] for each in runs)
    assert "executor_killed" in runs[-1]
