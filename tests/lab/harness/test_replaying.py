"""The harness without Spark: its queries are here a thread that writes what checkpoints hold."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.errors import SparkError
from elastream_lab.harness.job import Feed
from elastream_lab.harness.recording import write_recording
from elastream_lab.harness.replay import POSITION, ReplayClock
from elastream_lab.harness.replaying import Replay


def feed(folder: Path, rows: int, *, every_ms: int = 0) -> Feed:
    folder.mkdir(exist_ok=True)
    due_ms = np.arange(rows, dtype=np.int64) * every_ms
    recording = write_recording(folder / "rows.arrow", due_ms, ["row"] * rows)
    return Feed(recording, ReplayClock(folder / "clock"), folder / "checkpoint")


def commit(at: Feed, batch: int, end: int) -> None:
    for name in ("offsets", "commits"):
        file = at.checkpoint / name / str(batch)
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = at.checkpoint / f".{name}"
        temporary.write_text("v1\n{}\n" + json.dumps({POSITION: end}))
        temporary.replace(file)


@contextmanager
def reading(at: Feed) -> Iterator[list[int]]:
    """Commit whatever is available, as a query would; gives where its batches ended."""
    done, ends = threading.Event(), list[int]()

    def read() -> None:
        while not done.wait(0.01):
            available = at.clock.rows_available(at.recording, time.time() * 1000)
            if available > (ends[-1] if ends else 0):
                commit(at, len(ends), available)
                ends.append(available)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield ends
    finally:
        done.set()
        thread.join()


def nothing_wrong() -> None:
    pass


def test_the_lead_is_read_in_as_many_batches_as_asked_for(tmp_path: Path) -> None:
    one = feed(tmp_path, 100)
    replay = Replay([one], nothing_wrong)
    with reading(one) as ends:
        replay.lead_in([30], batches=3)
    assert ends == [10, 20, 30]
    assert (replay.rows_done, replay.lead) == (30, (30,))


def test_a_replay_that_goes_on_from_a_checkpoint_leads_in_from_there(tmp_path: Path) -> None:
    one = feed(tmp_path, 100)
    commit(one, 0, 60)
    replay = Replay([one], nothing_wrong)
    opened: list[int] = []
    with pytest.raises(SparkError, match="no batch"):
        Replay([one], nothing_wrong, stuck_s=0.0).lead_in(
            [80],
            batches=2,
            show=lambda: opened.append(one.clock.rows_available(one.recording, 0)),
        )
    assert replay.rows_done == 60
    assert opened == [70]


def test_all_feeds_begin_at_once_and_end_when_all_is_read(tmp_path: Path) -> None:
    two = [feed(tmp_path / "a", 7), feed(tmp_path / "b", 5)]
    replay = Replay(two, nothing_wrong)
    with reading(two[0]), reading(two[1]):
        start_ms = replay.begin(lead_s=3.0)
        replay.wait(lambda: replay.has_read_all)
    assert {each.clock.start_ms for each in two} == {start_ms}
    assert start_ms <= time.time() * 1000 - 3000
    assert replay.rows == replay.rows_done == 12


def test_what_is_fed_is_read_to_the_end_of_it_and_no_further(tmp_path: Path) -> None:
    one = feed(tmp_path, 100)
    replay = Replay([one], nothing_wrong)
    with reading(one) as ends, replay.fed([50], every_s=0.0):
        pass
    assert ends[-1] == replay.rows_done == 50


def test_the_next_rows_are_fed_when_those_before_are_read(tmp_path: Path) -> None:
    one = feed(tmp_path, 100)
    replay = Replay([one], nothing_wrong)
    with ExitStack() as readers:
        with replay.fed([40], every_s=0.01):
            while not (opened := one.clock.rows_available(one.recording, 0)):
                time.sleep(0.01)
            time.sleep(0.1)  # a clock would have opened more by now
            assert one.clock.rows_available(one.recording, 0) == opened == 1
            ends = readers.enter_context(reading(one))
            while len(ends) < 3:
                time.sleep(0.01)
        assert ends[:3] == [1, 2, 3]
    assert ends[-1] == 40


def test_a_query_that_ends_ends_the_waiting(tmp_path: Path) -> None:
    def ended() -> None:
        raise SparkError("substream_0 ended: for unknown reasons")

    replay = Replay([feed(tmp_path, 3)], ended)
    with pytest.raises(SparkError, match="substream_0 ended"):
        replay.wait(lambda: False)


def test_a_query_without_rows_to_read_is_not_stuck(tmp_path: Path) -> None:
    replay = Replay([feed(tmp_path, 3)], nothing_wrong, stuck_s=0.0)
    looks: list[int] = []
    replay.wait(lambda: len(looks) > 2, each=lambda: looks.append(1))
    assert replay.rows_done == 0


def test_batches_are_awaited_from_now_on(tmp_path: Path) -> None:
    one, done = feed(tmp_path, 10), threading.Event()
    commit(one, 0, 0)
    replay = Replay([one], nothing_wrong)

    def keep_committing() -> None:
        for batch in itertools.count(1):
            if done.wait(0.01):
                return
            commit(one, batch, 0)

    committing = threading.Thread(target=keep_committing)
    committing.start()
    since_ms = time.time() * 1000
    replay.wait_for_batches(2)
    done.set()
    committing.join()
    assert sum(batch.began_ms > since_ms for batch in replay.batches[0]) >= 2


def test_rows_of_the_lead_have_no_response_time(tmp_path: Path) -> None:
    one = feed(tmp_path, 10, every_ms=1)
    replay = Replay([one], nothing_wrong)
    with pytest.raises(SparkError, match="not begun"):
        replay.responses()
    with reading(one):
        replay.lead_in([4], batches=1)
        replay.begin()
        replay.wait(lambda: replay.has_read_all)
    assert len(replay.responses().response_ms) == 6
    assert replay.responses().response_ms.min() >= 0


@given(pace=st.floats(0.1, 1.0), slow_ms=st.integers(0, 3000), row=st.integers(0, 29))
@settings(max_examples=min(100, settings().max_examples))
def test_a_slower_clock_makes_each_row_available_when_it_says_that_it_is_due(
    pace: float, slow_ms: int, row: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    one = feed(tmp_path_factory.mktemp("clock"), 30, every_ms=100)
    one.clock.start(5000)
    before_ms = one.clock.due_ms(one.recording)
    assert before_ms.tolist() == one.recording.due_ms.tolist()
    one.clock.slow_down(pace, 5000 + slow_ms)
    due_ms = one.clock.due_ms(one.recording)
    assert (due_ms >= before_ms).all()
    at_ms = 5000 + int(due_ms[row])
    assert one.clock.rows_available(one.recording, at_ms + 1) >= row + 1
    assert one.clock.rows_available(one.recording, at_ms - 1) <= row


def test_a_slower_clock_halves_the_rate_from_then_on(tmp_path: Path) -> None:
    one = feed(tmp_path, 20, every_ms=100)
    one.clock.start(0)
    one.clock.slow_down(0.5, 1000)
    busy, quiet = [100 * row for row in range(11)], [1000 + 200 * row for row in range(1, 10)]
    assert one.clock.due_ms(one.recording).tolist() == busy + quiet
