"""What the demo reports of a change: all of it, from the decision to the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from elastream.cli.demo.picture import draw_picture
from elastream.cli.demo.summary import changes_of, shown, summary
from elastream.cli.demo.view import drawn, watched
from elastream.cli.screen import Screen
from elastream.core.decisions import Decision, Kind
from elastream.demo.run import CountedFile, Demo, DemoSample

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
def demo() -> Demo:
    """A file of ten posts a second; from 20 to 30 s they wait 5 s longer."""
    made = Demo()
    made.start_ms, made.wrong_words = START_MS, 0
    for number in range(40):
        due_ms = START_MS + 1000.0 * number
        waited_ms = 1500 + (5000 if 20 <= number < 30 else 0)
        made.counted.append(CountedFile(due_ms, 10, due_ms + waited_ms))
        made.samples.append(DemoSample(float(number), 2, 3, 0.5))
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
    before, during = change.responses(demo.counted)
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
    console.print(shown(demo, 60.0))
    text = console.export_text()
    assert "/ 6.5" in text
    assert "12 s" in text


def test_a_change_whose_times_are_not_known_has_no_waits(demo: Demo) -> None:
    demo.decisions[0] = decision(None, "scale-out")
    migration = only_migration(demo)
    assert (migration["asked_to_done_s"], migration["response_change_ms"]) == (None, None)
    Console(width=200, quiet=True).print(shown(demo, 60.0))


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
    console.print(drawn(demo))
    text = console.export_text()
    assert "up to 1200 posts/s" in text
    assert "scale-out: the reason of scale-out" in text


def test_elsewhere_each_decision_is_a_line_once(
    demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    with watched(Screen()) as show:
        show(demo)
        show(demo)
    assert capsys.readouterr().out.count("scale-out: the reason of scale-out\n") == 1
