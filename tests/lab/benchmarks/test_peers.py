from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.errors import ElastreamError, ProblemError
from elastream_lab.benchmarks.peers.bench import PeerSettings
from elastream_lab.benchmarks.peers.figures import (
    NEVER_MS,
    Change,
    PeerResult,
    Seen,
    figures_of,
    settled_ms,
    steady_latency,
)
from elastream_lab.benchmarks.peers.rows import (
    BALLAST_BYTES,
    RowPlan,
    make_rows,
    running_counts,
    words_of,
)
from elastream_lab.harness.word_count import BALLAST

START_MS = 1_000_000.0
ASKED_MS = START_MS + 20_000
CHANGE = Change(START_MS + 5_000, ASKED_MS, ASKED_MS + 2_000)
LATENCY_MS = 10.0


def stopped(begin_ms: float, end_ms: float, *, seconds: float = 40.0) -> Seen:
    """A row a millisecond, its result 10 ms later; none comes from one moment to another."""
    due_ms = START_MS + np.arange(seconds * 1000)
    visible_ms = due_ms + LATENCY_MS
    held = (visible_ms >= begin_ms) & (visible_ms < end_ms)
    return Seen(due_ms, np.where(held, end_ms, visible_ms))


@settings(max_examples=100)
@given(after_ms=st.integers(0, 1500), stop_ms=st.integers(100, 5000))
def test_a_stop_is_the_gap_and_what_rows_wait(after_ms: int, stop_ms: int) -> None:
    begin_ms = ASKED_MS + after_ms
    seen = stopped(begin_ms, begin_ms + stop_ms)
    figures = figures_of(seen, CHANGE, until_ms=START_MS + 40_000)
    assert figures.gap_ms == pytest.approx(stop_ms + 1, abs=1)
    assert figures.settled_s is not None
    during = figures.settled_s * 1000
    lasted = begin_ms + stop_ms - ASKED_MS
    assert during >= 2_000 + 3_000, "three calm seconds with the new size"
    assert during <= max(2_000, lasted + 1_000) + 3_000 + 1
    waits = np.sort(
        np.r_[np.full(int(during) - stop_ms, LATENCY_MS), LATENCY_MS + np.arange(stop_ms)]
    )
    expected = np.percentile(waits, 99) - LATENCY_MS
    assert figures.added_p99_ms == pytest.approx(expected, abs=12)


def test_nothing_felt_adds_nothing() -> None:
    figures = figures_of(stopped(0, 0), CHANGE, until_ms=START_MS + 40_000)
    assert figures.as_json() == {"gap_ms": 1, "added_p99_ms": 0, "settled_s": 5.0}


def test_a_stream_that_does_not_come_back_is_not_settled() -> None:
    seen = stopped(ASKED_MS + 500, NEVER_MS)
    assert settled_ms(seen, CHANGE) is None
    figures = figures_of(seen, CHANGE, until_ms=START_MS + 40_000)
    assert figures.settled_s is None
    assert figures.gap_ms == pytest.approx(19_500, abs=2)
    assert figures.added_p99_ms == pytest.approx(19_500 * 0.99, rel=0.02)


def test_rows_that_wait_before_the_change_are_no_steady_state() -> None:
    with pytest.raises(ElastreamError, match="not up to date before the change"):
        steady_latency(stopped(ASKED_MS - 1000, NEVER_MS), CHANGE)


def test_a_calm_second_is_within_a_fifth_or_fifty_milliseconds_of_the_steady_one() -> None:
    def later(by_ms: float) -> float | None:
        calm = stopped(0, 0)
        late = np.where(calm.due_ms >= ASKED_MS, by_ms, 0.0)
        return settled_ms(Seen(calm.due_ms, calm.visible_ms + late), CHANGE)

    assert later(49.0) == CHANGE.effective_ms + 3000
    assert later(51.0) is None


def test_a_result_has_the_names_of_the_run_summaries() -> None:
    seen = stopped(ASKED_MS + 1000, ASKED_MS + 1500)
    figures = figures_of(seen, CHANGE, until_ms=START_MS + 40_000)
    steady = steady_latency(seen, CHANGE)
    fields = PeerResult("flink 2.0", True, 1234.5, steady, figures, figures).as_json()
    assert list(fields) == [
        "system",
        "exact",
        "rows_per_s",
        "steady_latency_ms",
        "rescale",
        "cold_rescale",
    ]
    assert fields["steady_latency_ms"] == {"median": 10, "p99": 10}
    assert fields["rescale"] == figures.as_json()
    assert list(figures.as_json()) == ["gap_ms", "added_p99_ms", "settled_s"]


def test_both_files_hold_the_same_rows(tmp_path: Path) -> None:
    plan = RowPlan(
        state_bytes=20 * BALLAST_BYTES,
        hot_share=0.2,
        rows_a_second=100,
        seconds=3,
        lead=40,
        backlog=60,
    )
    rows = make_rows(plan, tmp_path)
    assert (rows.filling, rows.lead, rows.first, rows.recording.rows) == (20, 60, 120, 420)
    texts = [
        text
        for part in rows.recording.slices(0, rows.recording.rows)
        for text in part.column("text").to_pylist()
    ]
    assert [word.decode() for word in words_of(rows.fixed, 420)] == texts
    due_ms = np.fromfile(rows.fixed, dtype=">i8").reshape(420, 4)[:, 0]
    assert due_ms.tolist() == rows.recording.due_ms.tolist()
    assert due_ms[:121].tolist() == [0] * 121
    assert due_ms[-1] == 2990
    assert texts[:20] == [f"{BALLAST}{number}" for number in range(20)]
    assert not any(word.startswith(BALLAST) for word in texts[20:120])
    hot = Counter(word for word in texts[120:] if word.startswith(BALLAST))
    assert hot == {f"{BALLAST}0": 8, f"{BALLAST}1": 8, f"{BALLAST}2": 7, f"{BALLAST}3": 7}


@settings(max_examples=200)
@given(st.lists(st.sampled_from([b"a", b"b", b"ba", b"c"]), min_size=1, max_size=20))
def test_a_running_count_is_how_often_a_word_has_come(words: list[bytes]) -> None:
    expected = [words[: row + 1].count(word) for row, word in enumerate(words)]
    assert running_counts(np.array(words)).tolist() == expected


def test_settings_are_checked() -> None:
    with pytest.raises(ProblemError, match=r"hot_share: 1\.5 is above 1"):
        PeerSettings(hot_share=1.5)
    fields = PeerSettings(state_mb=2, rows_a_second=10).as_json()
    assert fields == {"rows_per_s": 10, "state_bytes": 2 << 20, "hot_share": 0.2, "trigger_s": 1.0}
