"""What the demo reports of a change: all of it, from the decision to the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from elastream.cli.demo.picture import draw_picture
from elastream.cli.demo.summary import changes_of, printed_summary, summary
from elastream.cli.demo.view import display, live_view, partition_map
from elastream.cli.screen import Screen
from elastream.core.decisions import Decision, Kind
from elastream.core.goal import Marks
from elastream.core.scenes import Scene, SceneExecutor, SceneLoop, SceneQuery, SceneTask
from elastream.demo.demo_run import DemoSample
from elastream.demo.run import CountedFile, Demo
from elastream.model.observation import TaskId

START_MS = 1_000_000
FIGURES = {
    "executors_before": 2,
    "executors_after": 3,
    "tasks_moved": 4,
    "state_bytes_moved": 4096,
    "batches": 2,
    "seconds": 12.0,
    "worst_batch_ms": 800.0,
    "median_batch_ms_before": 500.0,
}

LOOP = SceneLoop(
    mode="acts",
    phase="moving",
    goal="utilisation 0.7",
    planner="free-step",
    least=1,
    most=4,
    tau=0.2,
    marks=Marks(0.6, 0.7, 0.8),
    utilisation=0.7,
    cooldown_until_ms=None,
    attached_ms=0,
    executor_s=0.0,
    spare_executor_s=0.0,
)
QUERY = SceneQuery(3, 1000, False, 1, 300, 100, 100, 0, 0)


def executor(busy: float | None, *, warm: bool = True, spare: bool = False) -> SceneExecutor:
    return SceneExecutor("host", 1, 1, warm, spare, busy)


def decision(at_s: float, kind: Kind, **more: Any) -> Decision:
    return Decision(START_MS + round(1000 * at_s), None, kind, f"the reason of {kind}", 2, **more)


@pytest.fixture
def demo() -> Demo:
    """A file of ten posts a second; from 20 to 30 s they wait 5 s longer."""
    made = Demo()
    made.start_ms, made.wrong_words = START_MS, 0
    for number in range(40):
        due_ms = START_MS + 1000.0 * number
        waited_ms = 1500 + (5000 if 20 <= number < 30 else 0)
        made.counted.append(CountedFile(due_ms, 10, due_ms + waited_ms))
        made.samples.append(DemoSample(float(number), 2, 3))
    made.decisions += [
        decision(18.0, "scale-out"),
        decision(26.0, "plan"),
        decision(30.0, "done", figures=FIGURES),
    ]
    return made


def only_migration(demo: Demo) -> dict[str, Any]:
    migrations = summary(demo, 60.0)["migrations"]
    assert isinstance(migrations, list)
    (only,) = migrations
    assert isinstance(only, dict)
    return only


def test_the_wait_before_the_first_move_is_part_of_the_change(demo: Demo) -> None:
    (change,) = changes_of(demo.decisions)
    before, during = change.responses(demo)
    assert change.took_s == 12.0
    assert before == {"median": 1500, "p99": 1500, "worst": 1500}
    assert during == {"median": 6500, "p99": 6500, "worst": 6500}


def test_the_summary_keeps_its_agreed_names_and_adds_the_whole_change(demo: Demo) -> None:
    migration = only_migration(demo)
    agreed = {"reason", "from", "to", "planner", "partitions_moved", "state_bytes_moved", "batches"}
    agreed |= {"worst_batch_ms", "median_batch_ms_before"}
    added = {"asked_to_done_s", "response_before_ms", "response_change_ms"}
    assert set(migration) == agreed | added
    assert (migration["worst_batch_ms"], migration["asked_to_done_s"]) == (800, 12.0)


def test_the_table_shows_how_long_posts_waited(demo: Demo) -> None:
    console = Console(width=200, record=True)
    console.print(printed_summary(demo, 60.0))
    text = console.export_text()
    assert "/ 6.5 s" in text
    assert "12 s" in text


@pytest.mark.parametrize("wrong_words", [None, 1])
def test_a_run_is_exact_only_where_it_was_checked(demo: Demo, wrong_words: int | None) -> None:
    assert summary(demo, 60.0)["exact"] is True
    demo.wrong_words = wrong_words
    assert summary(demo, 60.0)["exact"] is False


def test_the_picture_is_drawn_of_what_was_seen(demo: Demo, tmp_path: Path) -> None:
    draw_picture(demo, tmp_path / "demo.svg")
    assert "<svg" in (tmp_path / "demo.svg").read_text()


def test_a_terminal_shows_the_rate_and_what_was_decided(demo: Demo) -> None:
    console = Console(width=120, record=True)
    console.print(live_view(demo))
    text = console.export_text()
    assert "120 posts/s" in text
    assert "scale-out: the reason of scale-out" in text


def test_the_map_has_a_row_for_each_executor_with_its_load_its_partitions_and_their_moves() -> None:
    tasks = {
        TaskId("q", 0, 0): SceneTask("a", 0.3, 1),
        TaskId("q", 0, 1): SceneTask("a", 0.0, 1, heading="c"),
        TaskId("q", 0, 2): SceneTask("b", 0.1, 1),
    }
    executors = {
        "a": executor(0.9),
        "b": executor(0.1),
        "c": executor(None, warm=False),
        "d": executor(0.0, spare=True),
    }
    console = Console(width=100, record=True)
    console.print(partition_map(Scene(0, LOOP, executors, {"q": QUERY}, tasks)))
    assert [" ".join(line.split()) for line in console.export_text().splitlines()] == [
        "executor a ██████████████████░░ 90% 0 1>c",
        "executor b ██░░░░░░░░░░░░░░░░░░ 10% 2",
        "executor c cold -",
        "executor d spare 0%",
    ]


def test_elsewhere_each_decision_is_a_line_once(
    demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    with display(Screen()) as show:
        show(demo)
        show(demo)
    assert capsys.readouterr().out.count("scale-out: the reason of scale-out\n") == 1
