"""What the demo tells of a change: all of it, from the decision to the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from elastream.cli.demo.summary import migrations_of, shown, summary, waits_around
from elastream.core.decisions import Decision, Kind
from elastream.demo.run import Demo
from elastream.demo.settings import DemoSettings
from elastream.harness.commit_log import CommittedBatch
from elastream.harness.recording import write_recording

START_MS = 1_000_000
FIGURES = {
    "executors_before": 2,
    "executors_after": 3,
    "tasks_moved": 4,
    "state_bytes_moved": 4096,
    "batches": 2,
    "worst_batch_ms": 800.0,
    "median_batch_ms_before": 500.0,
}


def decision(at_s: float | None, kind: Kind, **more: Any) -> Decision:
    at_ms = None if at_s is None else START_MS + round(1000 * at_s)
    return Decision(at_ms, None, kind, f"the reason of {kind}", 2, **more)


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    """A row every tenth of a second, a batch a second; from 20 to 30 s rows wait 5 s longer."""
    due_ms = np.arange(400, dtype=np.int64) * 100
    recording = write_recording(tmp_path / "rows", due_ms, ["row"] * 400)
    made = Demo(DemoSettings(), recording, 0.0, None)
    made.start_ms = START_MS
    for number in range(40):
        ended_s = number + 1.5 + (5 if 20 <= number < 30 else 0)
        ended_ms = START_MS + 1000 * ended_s
        made.batches.append(
            CommittedBatch(number, 10 * number, 10 * number + 10, ended_ms - 500, ended_ms)
        )
    made.decisions += [
        decision(18.0, "scale-out"),
        decision(26.0, "plan"),
        decision(30.0, "done", figures=FIGURES),
    ]
    made.exact = True
    return made


def only_migration(demo: Demo) -> dict[str, Any]:
    told = summary(demo, 60.0)["migrations"]
    assert isinstance(told, list)
    (only,) = told
    assert isinstance(only, dict)
    return only


def test_the_hill_before_the_first_move_is_in_the_waits_of_the_change(demo: Demo) -> None:
    (told,) = migrations_of(demo.decisions)
    waits = waits_around(demo, told)
    assert waits.before is not None
    assert waits.change is not None
    assert told.took_s == 12.0
    assert waits.before.worst == pytest.approx(1500)
    assert waits.change.worst == pytest.approx(6500)
    assert waits.change.median > 5000


def test_the_summary_keeps_its_agreed_names_and_adds_the_whole_change(demo: Demo) -> None:
    told = only_migration(demo)
    agreed = {"reason", "from", "to", "planner", "partitions_moved", "state_bytes_moved", "batches"}
    agreed |= {"worst_batch_ms", "median_batch_ms_before"}
    assert set(told) - agreed == {"asked_to_done_s", "response_before_ms", "response_change_ms"}
    assert set(told) >= agreed
    assert (told["worst_batch_ms"], told["asked_to_done_s"]) == (800, 12.0)
    assert told["response_change_ms"]["worst"] == 6500


def test_the_table_shows_what_rows_waited(demo: Demo) -> None:
    console = Console(width=200, record=True)
    console.print(shown(demo, 60.0))
    text = console.export_text()
    assert "/ 6.5" in text
    assert "12 s" in text


def test_a_change_whose_times_are_not_known_has_no_waits(demo: Demo) -> None:
    demo.decisions[0] = decision(None, "scale-out")
    told = only_migration(demo)
    assert (told["asked_to_done_s"], told["response_change_ms"]) == (None, None)
    Console(width=200, quiet=True).print(shown(demo, 60.0))
