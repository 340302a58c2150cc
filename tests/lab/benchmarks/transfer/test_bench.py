"""The transfer benchmark: settings, summary, and one run on live executors."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elastream.model.errors import ProblemError
from elastream_lab.benchmarks.transfer.run import TransferResult, TransferSettings
from elastream_lab.cli.bench_transfer import table
from elastream_lab.hosts.namespaces import why_not

CONTRACT = {
    *("way", "store", "partition_bytes", "seconds"),
    *("bytes_from_storage", "bytes_from_executors", "exact"),
}
ADDED = {"stamp_held_ms", "bytes_read", "changelog_bytes_read", "move_over_neighbours"}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"store": ()}, "store"),
        ({"store": ("tape",)}, "store"),
        ({"partition_mb": 0}, "partition_mb"),
        ({"store_mb_per_s": 0}, "store_mb_per_s"),
        ({"store_open_ms": -1}, "store_open_ms"),
        ({"executor_mb_per_s": 0}, "executor_mb_per_s"),
        ({"offers": -1}, "offers"),
        ({"repeats": 0}, "repeats"),
    ],
)
def test_settings_are_checked_when_made(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ProblemError) as refused:
        TransferSettings(**wrong)
    assert refused.value.field == field


def test_a_result_has_the_members_of_the_contract_and_those_of_its_goals() -> None:
    result = TransferResult("executor", "slow", 64_000_000, 1.25, 0, 63_000_000, exact=True)
    assert result.as_json().keys() == CONTRACT | ADDED


def test_the_table_has_a_row_for_each_store_and_way_and_no_figure_that_is_not_known() -> None:
    sent = TransferResult("executor", "slow", 64_000_000, 1.25, 0, 63_000_000, 7, exact=True)
    results = [
        replace(sent, move_over_neighbours=1.125),
        replace(sent, seconds=1.75, stamp_held_ms=9),
        TransferResult("checkpoint", "slow", 64_000_000, 3.0, 63_000_000, 0),
    ]
    columns = [list(column.cells) for column in table(results).columns]
    assert list(zip(*columns, strict=True)) == [
        ("slow", "checkpoint", "1", "64", "3.00", "63.0", "0.0", "-", "-", "NO"),
        ("slow", "executor", "2", "64", "1.50", "0.0", "63.0", "9", "1.12", "yes"),
    ]


@pytest.mark.slow
@pytest.mark.spark
def test_both_ways_copy_all_state_and_an_owner_s_needs_nothing_of_storage(tmp_path: Path) -> None:
    file = tmp_path / "transfer.json"
    arguments = "--store slow --partition-mb 2 --store-mb-per-s 20 --repeats 1 --offers 1"
    link = [] if why_not() else ["--executor-mb-per-s", "200"]  # a process of its own has that
    command = [sys.executable, "-m", "elastream.cli.main", "bench", "transfer", *arguments.split()]
    ended = subprocess.run([*command, *link, "--json", str(file)], check=False)
    assert ended.returncode == 0
    runs = json.loads(file.read_text())["runs"]
    assert [run["way"] for run in runs] == ["checkpoint", "executor", "executor"]
    assert all(run["exact"] for run in runs)
    stored, sent, dropped = runs
    assert (
        stored["bytes_from_executors"] == 0 < stored["bytes_from_storage"] <= stored["bytes_read"]
    )
    assert sent["bytes_from_storage"] == 0 < sent["bytes_from_executors"]
    assert sent["bytes_read"] == sent["changelog_bytes_read"] < stored["bytes_read"]
    assert stored["stamp_held_ms"] is None
    assert min(sent["stamp_held_ms"], dropped["stamp_held_ms"]) >= 0
    assert dropped["move_over_neighbours"] is None
