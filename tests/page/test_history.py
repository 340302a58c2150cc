from __future__ import annotations

import gc
import json
import threading
import tracemalloc
from typing import Any

from tests.page.runs import begun

from elastream.core.decision_log import LogEntry
from elastream.core.scene_lines import laid_over, whole_record
from elastream.core.scenes import take_scene
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
    history.append("one")
    first = history.read(None)
    assert (first.lines, first.anew) == (("one",), True)
    assert history.read(first.position).lines == ()
    history.append("two")
    second = history.read(first.position)
    assert (second.lines, second.anew) == (("two",), False)


def test_a_position_that_no_one_knows_begins_anew() -> None:
    history = History()
    history.append("one")
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
        small.append(line, scene=record["kind"] == "scene")
    assert small.begins_later
    assert not run.history.begins_later
    seen: dict[str, Any] = {}
    scenes = [r for r in map(json.loads, all_lines(small)) if r["kind"] == "scene"]
    assert scenes[0]["whole"]
    for record in scenes:
        seen = laid_over(seen, record)
    places = {name: batch[0] for name, batch in seen["tasks"].items()}
    assert places == {name: batch[0] for name, batch in expected["tasks"].items()}
    assert len("".join(all_lines(small))) < 30_000


def test_a_history_takes_no_more_memory_than_it_may() -> None:
    most_bytes = 1 << 20
    entries: list[LogEntry] = []
    cluster, loop = begun()
    loop.add_log(entries.append)
    with loop:
        cluster.advance(600)
    run = Run("a run")
    run.history = History(most_bytes=most_bytes)
    for entry in entries:  # whatever is kept once and for all
        run.take(entry)
    run.history = History(most_bytes=most_bytes)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        while not run.history.begins_later:
            for entry in entries:
                run.take(entry)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.5 * most_bytes < held < 1.1 * most_bytes


def test_a_portion_is_bounded_by_its_size() -> None:
    history = History()
    lines = [f"{n}" * 100_000 for n in range(10)]
    for line in lines:
        history.append(line)
    portions, position = [], None
    while (portion := history.read(position)).lines:
        portions.append(portion.lines)
        position = portion.position
    assert [line for portion in portions for line in portion] == lines
    assert max(len(portion) for portion in portions) == 3


def test_a_reader_that_fell_behind_begins_anew() -> None:
    history = History(most_bytes=10)
    history.append("a" * 6)
    behind = history.read(None).position - 1
    for _ in range(3):
        history.append("b" * 6)
    assert history.read(behind).anew


def test_who_waits_is_woken_by_a_record_and_by_the_end() -> None:
    history = History()
    assert not history.wait(0, 0.01)
    waiting = threading.Thread(target=lambda: history.wait(0, 60))
    waiting.start()
    history.append("one")
    waiting.join(30)
    assert not waiting.is_alive()
    waiting = threading.Thread(target=lambda: history.wait(1, 60))
    waiting.start()
    history.close()
    waiting.join(30)
    assert not waiting.is_alive()
