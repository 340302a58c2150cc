from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.foresight.traces.recorded import done, sample

from elastream import Policy
from elastream.cli.main import main
from elastream.core.decision_log import DecisionLog
from elastream.core.decisions import Decision
from elastream.core.samples import Sample
from elastream.foresight.traces.folder import read_nodes, read_tasks, read_totals
from elastream.foresight.traces.from_log import trace_from_log
from elastream.model.errors import ProblemError
from elastream.model.observation import TaskId
from elastream.testing import SimulatedCluster, even_workload, simulated

A, B, OTHER = TaskId("q", 0, 0), TaskId("q", 0, 1), TaskId("other", 0, 0)


def logged(path: Path, *entries: Decision | Sample) -> Path:
    log = DecisionLog(path)
    for entry in entries:
        log.append(entry)
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return logged(
        tmp_path / "decisions.jsonl",
        sample(60, ["1"], {A: (0.5, 100), B: (0.25, 50)}, {"q": 10.0}),
        sample(90, ["1"], {A: (0.7, 200), B: (0.75, 70)}, {"q": 30.0}),
        done(95, 3),
        sample(190, ["1", "2", "3"], {A: (0.1, 300), OTHER: (2.0, 7)}, {"q": 5.0, "other": 1.0}),
    )


def test_an_interval_has_the_mean_of_its_samples(log: Path, tmp_path: Path) -> None:
    made = trace_from_log(log, tmp_path / "trace", every_s=60)
    assert made.tasks == (OTHER, A, B)
    assert made.nodes == (1, 1, 3)
    trace = read_tasks(tmp_path / "trace")
    # cores for a minute; the minute without a sample is like the one before it
    assert trace.work == pytest.approx(60 * np.array([[0, 0.6, 0.5], [0, 0.6, 0.5], [2, 0.1, 0]]))
    assert trace.state_bytes.tolist() == [[0, 150, 60], [0, 150, 60], [7, 300, 0]]
    assert read_totals(tmp_path / "trace") == (1200, 1200, 360)
    assert read_nodes(tmp_path / "trace")["nodes"] == [1, 1, 3]


def test_one_query_of_several_can_be_taken(log: Path, tmp_path: Path) -> None:
    made = trace_from_log(log, tmp_path / "trace", queries=("other",))
    assert made.tasks == (OTHER,)
    assert read_tasks(tmp_path / "trace").work.tolist() == [[0], [0], [120]]


def test_files_that_the_log_was_rotated_into_are_read_as_well(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path / "log.jsonl", max_bytes=1 << 10, keep=3)
    for minute in range(12):
        log.append(sample(60 * minute, ["1"], {A: (0.5, 100), B: (0.25, 50)}))
    assert (tmp_path / "log.jsonl.1").exists()
    made = trace_from_log(tmp_path / "log.jsonl", tmp_path / "trace")
    assert made.intervals > 4


@pytest.mark.parametrize(
    ("every_s", "queries", "line"),
    [
        (60, ("nobody",), "queries: 'nobody' is not in the log; there are other, q"),
        (0, (), "every_s: 0 is not positive; give more than zero"),
        (1e-6, (), "every_s: 1e-06 s is shorter than a millisecond"),
    ],
)
def test_wrong_arguments_leave_nothing_behind(
    log: Path, tmp_path: Path, every_s: float, queries: tuple[str, ...], line: str
) -> None:
    with pytest.raises(ProblemError) as raised:
        trace_from_log(log, tmp_path / "trace", every_s=every_s, queries=queries)
    assert str(raised.value) == line
    assert [path.name for path in tmp_path.iterdir()] == ["decisions.jsonl"]


def test_a_log_without_samples_makes_no_trace(tmp_path: Path) -> None:
    log = logged(tmp_path / "log.jsonl", done(1, 2))
    with pytest.raises(ProblemError, match="holds no samples"):
        trace_from_log(log, tmp_path / "trace")


def test_the_command_makes_a_trace_whose_chain_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "decisions.jsonl", tmp_path / "trace"
    cluster = SimulatedCluster(
        [even_workload(8, lambda s: 500 if s % 400 < 200 else 2500, name="q")]
    )
    with simulated(cluster, Policy(max_executors=6), log=log):
        cluster.advance(1600)
    command = ["trace", "from-log", str(log), "--out", str(out), "--every", "2m"]
    assert main([*command, "--query", "q"]) == 0
    assert "work and state of 8 tasks" in capsys.readouterr().out
    sizes = set(read_nodes(out)["nodes"])
    assert len(sizes) > 1
    assert main(["trace", "chain", str(out)]) == 0
    assert json.loads(capsys.readouterr().out)["sizes"] == [*range(min(sizes), max(sizes) + 1)]
    assert main(command) == 2
    assert "--overwrite replaces it" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
