"""The demo in Real-time Mode: what its figures are of, and the whole of it once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from rich.console import Console

from elastream.cli.demo.picture import draw_picture
from elastream.cli.demo.summary import printed_summary, summary
from elastream.cli.demo.view import live_view
from elastream.core.decisions import Decision
from elastream.demo.demo_run import DemoSample
from elastream.demo.posts import EVERY_S, WORDS_A_POST, realtime_spell
from elastream.demo.realtime import Boundary, CountedWord, RealtimeDemo, check
from elastream.model.errors import ProblemError
from elastream.spark.internals import variants

START_MS = 1_000_000.0
FIGURES = {
    "executors_before": 1,
    "executors_after": 2,
    "tasks_moved": 2,
    "state_bytes_moved": 4096,
    "batches": 1,
    "seconds": 6.0,
}


@pytest.fixture
def demo() -> RealtimeDemo:
    """Ten words a second in batches of 5 s; at each boundary those of 800 ms come out late."""
    made = RealtimeDemo()
    made.start_ms, made.wrong_words = START_MS, 0
    for number in range(150):
        due_ms = START_MS + 100.0 * number
        since_ms = (due_ms - START_MS) % 5000
        waits_ms = 800 - since_ms if number > 10 and since_ms < 800 else 0
        made.counted.append(CountedWord(due_ms, due_ms + waits_ms + 10, number // 50))
    made.counted.sort(key=lambda word: word.at_ms)
    made.samples += [DemoSample(float(second), 1 + (second > 5), 2) for second in range(15)]
    made.decisions += [
        Decision(int(START_MS) + 4000, None, "scale-out", "busy", 1),
        Decision(int(START_MS) + 10_000, None, "done", "done", 2, figures=FIGURES),
    ]
    return made


def test_a_boundary_is_from_the_last_word_of_a_batch_to_the_first_of_the_next(
    demo: RealtimeDemo,
) -> None:
    last_ms = START_MS + 4900 + 10
    assert demo.boundaries() == [
        Boundary(1, last_ms, 900.0),
        Boundary(2, last_ms + 5000, 900.0),
    ]


def test_words_between_boundaries_are_those_that_none_was_near_to(demo: RealtimeDemo) -> None:
    assert max(demo.waits_ms()) == 810
    assert set(demo.waits_apart(1000)) == {10}
    assert len(demo.waits_apart(1000)) == 150 - 2 * 29
    assert len(demo.waits_apart(100_000)) == 0


def test_without_boundaries_every_word_is_between_them(demo: RealtimeDemo) -> None:
    demo.counted = [word for word in demo.counted if word.batch == 0]
    assert demo.boundaries() == []
    assert len(demo.waits_apart(1000)) == 50


def test_the_latency_around_a_change_is_that_of_words_due_then(demo: RealtimeDemo) -> None:
    found: dict[str, Any] = summary(demo, 60.0)
    (change,) = found["migrations"]
    assert change["response_before_ms"] == {"median": 10, "p99": 10, "worst": 10}
    assert change["response_change_ms"]["worst"] == 810


def test_the_summary_has_the_boundaries_and_what_is_between_them(demo: RealtimeDemo) -> None:
    found: dict[str, Any] = summary(demo, 60.0)
    assert found["rows"] == 150
    assert found["between_boundaries_ms"] == {"median": 10, "p99": 10, "worst": 10}
    assert found["boundaries"] == [
        {"batch": 1, "at_s": 4.9, "gap_ms": 900.0},
        {"batch": 2, "at_s": 9.9, "gap_ms": 900.0},
    ]


def test_people_read_milliseconds(demo: RealtimeDemo) -> None:
    console = Console(width=200, record=True)
    console.print(printed_summary(demo, 60.0))
    console.print(live_view(demo))
    text = console.export_text()
    assert "150 words in 60 s: exact against a batch count" in text
    assert "from a boundary between batches: median 10 ms" in text
    assert "gap at a boundary: median 900 ms" in text
    assert "of the ten seconds before the change" in " ".join(text.split())


def test_the_picture_marks_the_ends_of_batches(demo: RealtimeDemo, tmp_path: Path) -> None:
    draw_picture(demo, tmp_path / "demo.svg")
    drawn = (tmp_path / "demo.svg").read_text()
    assert "end of a batch" in drawn
    assert "latency by second, ms" in drawn


def test_the_load_begins_and_ends_quietly_and_keeps_half_a_core_busy_between() -> None:
    load, demo = realtime_spell(), RealtimeDemo()
    assert max(load) > 3 * max(load[0], load[-1])
    words_per_s = max(load) / EVERY_S * WORDS_A_POST
    assert words_per_s * demo.work_us / 1e6 == pytest.approx(0.5)


def test_an_older_spark_and_another_load_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProblemError, match="leave out `long`"):
        check(long=True)
    older = SimpleNamespace(has_stateful_realtime=False)
    monkeypatch.setattr(variants, "installed_variant", lambda: older)
    with pytest.raises(ProblemError, match=r"needs PySpark 4\.3 or later"):
        check()


@pytest.mark.slow
@pytest.mark.skipif(pyspark.__version__ < "4.3", reason="needs Spark 4.3")
def test_the_demo_in_real_time_mode_scales_out_and_in_and_is_exact(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "elastream.cli.main", "demo", "--realtime"]
    done = subprocess.run(
        [*command, "--json", "summary.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "exact against a batch count" in done.stdout
    assert "drawn: elastream-demo.png" in done.stdout
    found: dict[str, Any] = json.loads((tmp_path / "summary.json").read_text())
    assert found["exact"] is True
    assert found["executors"] == {"min": 1, "max": 2, "final": 1}
    assert len(found["boundaries"]) > 5
