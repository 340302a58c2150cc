"""The transfer benchmark: settings, summary, and one run on live executors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from elastream.cli.main import main
from elastream.model.errors import ProblemError
from elastream_lab.benchmarks.transfer.run import TransferResult, TransferSettings
from elastream_lab.cli.bench_transfer import table

CONTRACT = {
    *("way", "store", "partition_bytes", "seconds"),
    *("bytes_from_storage", "bytes_from_executors", "exact"),
}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"store": ()}, "store"),
        ({"store": ("tape",)}, "store"),
        ({"partition_mb": 0}, "partition_mb"),
        ({"store_mb_per_s": 0}, "store_mb_per_s"),
        ({"store_open_ms": -1}, "store_open_ms"),
        ({"repeats": 0}, "repeats"),
    ],
)
def test_settings_are_checked_when_made(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ProblemError) as refused:
        TransferSettings(**wrong)
    assert refused.value.field == field


def test_a_result_has_the_members_of_the_contract_and_a_row() -> None:
    result = TransferResult("executor", "slow", 64_000_000, 1.25, 0, 63_000_000, exact=True)
    assert result.as_json().keys() == CONTRACT
    console = Console(width=120)
    with console.capture() as captured:
        console.print(table([result]))
    assert "slow" in captured.get()
    assert "1.25" in captured.get()


@pytest.mark.slow
@pytest.mark.spark
def test_both_ways_copy_all_state_and_an_owner_s_needs_nothing_of_storage(tmp_path: Path) -> None:
    file = tmp_path / "transfer.json"
    arguments = "--store slow --partition-mb 2 --store-mb-per-s 20 --repeats 1 --json"
    with pytest.raises(SystemExit) as ended:
        main(["bench", "transfer", *arguments.split(), str(file)])
    assert ended.value.code == 0
    runs = {run["way"]: run for run in json.loads(file.read_text())["runs"]}
    assert all(run["exact"] for run in runs.values())
    assert runs["executor"]["bytes_from_storage"] == 0 < runs["executor"]["bytes_from_executors"]
    assert (
        runs["checkpoint"]["bytes_from_executors"] == 0 < runs["checkpoint"]["bytes_from_storage"]
    )
