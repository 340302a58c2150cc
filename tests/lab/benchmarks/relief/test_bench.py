"""The relief benchmark around its runs: settings, rows, summary, table."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.lab.benchmarks.relief.test_figures import CONTRACT, result

from elastream.cli.main import main
from elastream.model.errors import ProblemError
from elastream_lab.benchmarks.relief.rows import Layout, make_batches, write_batches
from elastream_lab.benchmarks.relief.settings import ReliefSettings
from elastream_lab.benchmarks.relief.shapes import SHAPES
from elastream_lab.cli.bench_relief import table

BENCH = "elastream_lab.benchmarks.relief.run.run_relief"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"shape": ()}, "shape"),
        ({"shape": ("round",)}, "shape"),
        ({"change": ()}, "change"),
        ({"change": ((2, 2),)}, "change"),
        ({"change": ((0, 2),)}, "change"),
        ({"tau": -1}, "tau"),
        ({"row_ms": 0}, "row_ms"),
        ({"batches": 4}, "batches"),
    ],
)
def test_settings_are_checked_when_made(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ProblemError) as refused:
        ReliefSettings(**wrong)
    assert refused.value.field == field


def test_every_shape_has_as_many_rows_for_each_of_its_stages() -> None:
    assert all(sum(each.layout.keys) == each.layout.rows for each in SHAPES.values())
    assert {name for name, each in SHAPES.items() if each.slots == 2} == {
        "multi-core",
        "fractional",
    }


def test_every_batch_brings_each_partition_its_rows_and_no_id_twice(tmp_path: Path) -> None:
    layout = Layout((2, 1, 1), (3, 1, 0))
    ids = {place: [place + 3 * i for i in range(9)] for place in range(3)}
    keys = [{place: [place, place + 3] for place in range(3)}] * 4
    batches = write_batches(make_batches(layout, ids, keys), tmp_path / "rows")
    assert len(batches) == len(list((tmp_path / "rows").iterdir())) == 4
    for rows in batches:
        assert Counter(i % 3 for i, _, _ in rows) == {0: 2, 1: 1, 2: 1}
        assert Counter(k % 3 for _, k, _ in rows) == {0: 3, 1: 1}
    every = [i for rows in batches for i, _, _ in rows]
    assert len(set(every)) == len(every)
    written = sorted((tmp_path / "rows").iterdir(), key=lambda file: file.stat().st_mtime)
    first = [tuple(json.loads(line).values()) for line in written[0].read_text().splitlines()]
    assert first == batches[0]


def test_the_table_marks_what_elastream_did_not_predict() -> None:
    console = Console(width=250, record=True)
    console.print(table([result(), result(exact=False, predicted_by="model")]))
    shown = console.export_text()
    assert "2000*" in shown
    assert "1.02" in shown
    assert " NO " in shown


def test_the_summary_is_written_whole_also_where_a_shape_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(_: ReliefSettings, **report: Any) -> None:
        report["done"](result())
        report["failed"]("skewed: no batch")

    monkeypatch.setattr(BENCH, ran)
    file = tmp_path / "relief.json"
    assert main(["bench", "relief", "--change", "2-3", "--json", str(file)]) == 1
    summary = json.loads(file.read_text())
    assert set(summary) == {"settings", "runs", "error"}
    assert summary["settings"]["changes"] == [[2, 3]]
    assert [set(run) >= CONTRACT for run in summary["runs"]] == [True]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--change", "2,4"], "--change: "),
        (["--shape", "round"], "--shape: round is not one of"),
        (["--planner", "best"], "planner: "),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "relief", *arguments]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert line in said
