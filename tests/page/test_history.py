from __future__ import annotations

import json
import threading
from typing import Any

from tests.page.runs import begun

from elastream.loop.scene_lines import laid_over, whole_record
from elastream.loop.scenes import take_scene
from elastream.page.history import History
from elastream.page.run import Run


def all_lines(history: History, position: int | None = None) -> list[str]:
    lines: list[str] = []
    while (portion := history.read(position)).lines:
        lines += portion.lines
        position = portion.position
    return lines


def test_a_reader_reads_on_from_where_it_is() -> None:
    history = History()
    history.append("one", None)
    first = history.read(None)
    assert (first.lines, first.anew) == (("one",), True)
    assert history.read(first.position).lines == ()
    history.append("two", None)
    second = history.read(first.position)
    assert (second.lines, second.anew) == (("two",), False)


def test_a_position_that_nobody_knows_begins_anew() -> None:
    history = History()
    history.append("one", None)
    assert history.read(77).anew
    assert history.read(77).lines == ("one",)


def test_what_is_forgotten_leaves_how_everything_stood() -> None:
    run = Run("a run")
    small = History(most_bytes=30_000)
    cluster, loop = begun(run)
    with loop:
        cluster.advance(120)
        expected = whole_record(take_scene(loop.state))
    for line in all_lines(run.history):
        record = json.loads(line)
        small.append(line, record if record["kind"] == "scene" else None)
    assert small.begins_later
    assert not run.history.begins_later
    seen: dict[str, Any] = {}
    scenes = [r for r in map(json.loads, all_lines(small)) if r["kind"] == "scene"]
    assert scenes[0]["whole"]
    for record in scenes:
        seen = laid_over(seen, record)
    places = {name: told[0] for name, told in seen["tasks"].items()}
    assert places == {name: told[0] for name, told in expected["tasks"].items()}
    assert len("".join(all_lines(small))) < 60_000


def test_a_reader_that_fell_behind_begins_anew() -> None:
    history = History(most_bytes=10)
    history.append("a" * 6, None)
    behind = history.read(None).position - 1
    for _ in range(3):
        history.append("b" * 6, None)
    assert history.read(behind).anew


def test_who_waits_is_woken_by_a_record_and_by_the_end() -> None:
    history = History()
    assert not history.wait(0, 0.01)
    waiting = threading.Thread(target=lambda: history.wait(0, 60))
    waiting.start()
    history.append("one", None)
    waiting.join(30)
    assert not waiting.is_alive()
    waiting = threading.Thread(target=lambda: history.wait(1, 60))
    waiting.start()
    history.close()
    waiting.join(30)
    assert not waiting.is_alive()
