from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from elastream.cli.main import main
from elastream.foresight.traces.folder import commit

TOTALS = [100, 900, 900, 500, 100, 500, 900, 100]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    folder = tmp_path / "trace"
    (folder / "totals").mkdir(parents=True)
    begin = datetime(2020, 3, 1, tzinfo=UTC)
    times = [begin + timedelta(hours=hour) for hour in range(len(TOTALS))]
    table = pa.table({"time": times, "rows": TOTALS, "records": [7 * n for n in TOTALS]})
    parquet.write_table(table, folder / "totals" / "part.parquet")
    commit(folder, {"report": {"intervals": len(TOTALS), "tasks": 4}})
    return folder


def test_totals_become_node_counts_and_those_a_chain(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "nodes", str(trace), "--min", "2", "--max", "4"]) == 0
    assert json.loads((trace / "nodes.json").read_text())["nodes"] == [2, 4, 4, 3, 2, 3, 4, 2]
    assert "6 migrations in 8 intervals" in capsys.readouterr().out
    assert main(["trace", "chain", str(trace), "--smoothing", "0", "--gamma", "0.5"]) == 0
    chain = json.loads(capsys.readouterr().out)
    assert chain == {
        "sizes": [2, 3, 4],
        "matrix": [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]],
        "gamma": 0.5,
    }


def test_the_chain_of_a_trace_is_the_chain_of_a_problem(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "nodes", str(trace), "--min", "2", "--max", "4"]) == 0
    chain = tmp_path / "chain.json"
    assert main(["trace", "chain", str(trace), "--directed", "--out", str(chain)]) == 0
    problem = tmp_path / "problem.json"
    fields = {
        "work": [1] * 6, "state": [1] * 6, "current": [[0, 3], [3, 6]], "nodes": 3, "tau": 0.5,
        "chain": json.loads(chain.read_text()),
    }  # fmt: skip
    problem.write_text(json.dumps(fields))
    capsys.readouterr()
    assert main(["plan", "transition", str(problem)]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "optimal"


def test_months_are_comparable_by_the_same_bounds(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bounds = ["--low", "0", "--high", "1800"]
    assert main(["trace", "nodes", str(trace), "--min", "2", "--max", "4", *bounds]) == 0
    assert json.loads((trace / "nodes.json").read_text())["nodes"] == [2, 3, 3, 3, 2, 3, 3, 2]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nodes", "nowhere"], "nowhere: is not a trace, or was not finished"),
        (["chain", "TRACE"], "has no node counts: run `elastream trace nodes`"),
        (["nodes", "TRACE", "--min", "0"], "--min: 0 is too small"),
        (["nodes", "TRACE", "--min", "9", "--max", "8"], "--max: 8 is too small"),
        (["nodes", "TRACE", "--of", "bytes"], "--of: 'bytes' is neither rows nor records"),
        (["build", "--input", "no.csv", "--time", "t", "--text", "x", "--out", "o"], "not exist"),
        (["build", "--input", "x", "--time", "t", "--out", "o"], "either --text or --key"),
    ],
)
def test_wrong_input_is_one_line(
    arguments: list[str], line: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = [str(trace) if argument == "TRACE" else argument for argument in arguments]
    assert main(["trace", *reports]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert line in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("kept", "line"),
    [
        ([2, 3], "nodes.json: is damaged: run `elastream trace nodes` again"),
        ({"min": 2, "max": 3}, "nodes.json: is damaged: run `elastream trace nodes` again"),
        ({"max": 3, "nodes": [2, 3]}, "nodes.json: min: None is not a whole number"),
        ({"min": 2, "max": [3], "nodes": [2, 3]}, "nodes.json: max: [3] is not a whole number"),
        ({"min": 2, "max": 3, "nodes": [2, {}]}, "nodes.json: nodes: {} is not a whole number"),
        ({"min": 2, "max": 3, "nodes": [2, 4]}, "nodes.json: nodes: 4 is too large"),
        ({"min": 2, "max": 10**30, "nodes": [2, 3]}, "a chain has at most 2000 sizes"),
    ],
)
def test_damaged_node_counts_are_one_clear_line(
    trace: Path, capsys: pytest.CaptureFixture[str], kept: object, line: str
) -> None:
    (trace / "nodes.json").write_text(json.dumps(kept))
    assert main(["trace", "chain", str(trace)]) == 2
    captured = capsys.readouterr()
    assert line in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
