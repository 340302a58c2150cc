"""Traces made by hand: what a loss comes to follows from its batches, events and decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from elastream.core.decisions import Decision
from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream_lab.benchmarks.failure.loss import (
    Loss,
    LossResult,
    caught_up_s,
    chosen_victim,
    standing_by,
    taken_over,
)
from elastream_lab.harness.commit_log import CommittedBatch
from elastream_lab.mechanisms.trace import Ahead, Resize, ResizeFigures, Trace, measured

MB = 1_000_000
NOTHING = Ahead()
CONTRACT = {
    "way", "exact", "longest_gap_ms", "detection_ms", "bytes_loaded", "response_ms",
}  # fmt: skip
KILLED_MS = 13_250.0
"""In the middle of batch 12, which would have ended at 13.5 s."""


def observation(number: int, executors: Sequence[str], sizes: Sequence[int]) -> BatchObservation:
    tasks = tuple(
        TaskObservation(TaskId("q", 0, partition), executor, 100.0, 10, 5, size)
        for partition, (executor, size) in enumerate(zip(executors, sizes, strict=True))
    )
    return BatchObservation("q", "run", number, 500.0, 10, None, 0, 1000.0, tasks)


def trace(places: Sequence[str], ends_s: Mapping[int, float]) -> Trace:
    """Batch n begins at n + 1 s, or when the one before has ended; it takes half a second.

    ``ends_s`` has those that end otherwise.
    """
    batches: list[CommittedBatch] = []
    for n in range(len(places)):
        began_ms = max(1000.0 * (n + 1), batches[-1].finished_ms if batches else 0.0)
        finished_ms = 1000 * ends_s[n] if n in ends_s else began_ms + 500
        batches.append(CommittedBatch(n, 10 * n, 10 * n + 10, began_ms, finished_ms))
    seen = {n: observation(n, place, [MB] * len(place)) for n, place in enumerate(places)}
    return Trace(tuple(batches), seen, np.arange(10 * len(places)) * 100, 0.0, 0)


LOST = ["001122"] * 12 + ["001101"] * 10 + ["331101"] * 18
"""Executor 2 is lost: its tasks run on 0 and 1 from batch 12 on; 3 comes and takes two of 0."""


def figures(ahead: Ahead = NOTHING) -> ResizeFigures:
    change = Resize("elastream", 3, 3, KILLED_MS, 23_000.0, 1e9, ahead)
    return measured(trace(LOST, {12: 18.0}), change, tau=0.1)


def result(**changed: Any) -> LossResult:
    loss = Loss("2", tasks=2, state_bytes=2 * MB, detection_ms=104.4, replaced_s=6.04)
    made: dict[str, Any] = {
        "way": "elastream",
        "state_bytes": 64 << 20,
        "repeat": 1,
        "exact": True,
        "loss": loss,
        "figures": figures(),
        "caught_up_s": 4.8,
        "series": ((-5.0, 1.5), (0.5, 5.0), (21.4, 1.4)),
    }
    return LossResult(**{**made, **changed})


def test_a_run_is_reported_in_the_names_that_are_agreed() -> None:
    fields = result().as_json()
    assert set(fields) >= CONTRACT
    assert fields["way"] == "elastream"
    assert (fields["exact"], fields["detection_ms"], fields["replaced_s"]) == (True, 104, 6.0)
    response: Any = fields["response_ms"]
    assert set(response["steady"]) == {"median", "p99"}
    assert set(response["change"]) == {"median", "p99", "worst"}
    assert (fields["tasks_lost"], fields["state_bytes_lost"]) == (2, 2 * MB)


def test_the_batch_that_was_hit_is_the_longest_gap_and_no_steady_one() -> None:
    fields = result().as_json()
    # From the end of batch 11, at 12.5 s, to that of batch 12.
    assert fields["longest_gap_ms"] == 5500
    assert (fields["steady_batch_ms"], fields["worst_batch_ms"]) == (500, 5000)


def test_the_change_is_over_when_the_query_is_steady_after_the_last_move() -> None:
    fields = result().as_json()
    # Batch 22 is the first on moved state again; 23 to 25 are the first three after it.
    assert fields["steady_again"]
    assert fields["settled_s"] == pytest.approx(26.5 - 13.25, abs=0.06)


def test_the_query_has_caught_up_with_the_last_batch_that_has_a_late_row() -> None:
    change = Resize("stock", 3, 3, KILLED_MS, 23_000.0, 1e9)
    # A steady row waits at most 1.5 s. Batch 12 ends at 18 s and the others follow, half a second
    # each: batch 17, at 20.5 s, has a row that was due at 17 s, and batch 18 none that waited more
    # than three.
    found = caught_up_s(trace(LOST, {12: 18.0}), change)
    assert found == pytest.approx(20.5 - 13.25)
    assert caught_up_s(trace(LOST, {}), change) == 0.0


def test_bytes_loaded_are_those_of_every_task_that_came_elsewhere() -> None:
    fields = result().as_json()
    assert (fields["partitions_moved"], fields["bytes_loaded"]) == (4, 4 * MB)


@pytest.mark.parametrize(
    ("ahead", "loaded"),
    [(Ahead(2, 2 * MB), 2 * MB), (Ahead(4, 3 * MB), 0), (Ahead(9, 9 * MB), 0)],
)
def test_what_was_taken_over_from_copies_was_not_loaded(ahead: Ahead, loaded: int) -> None:
    fields = result(figures=figures(ahead)).as_json()
    assert (fields["bytes_loaded"], fields["state_bytes_moved"]) == (loaded, 4 * MB)


def test_a_loss_that_no_one_made_up_for_has_no_moment_for_that() -> None:
    loss = Loss("2", 2, 2 * MB, detection_ms=100.0, replaced_s=None)
    assert result(loss=loss).as_json()["replaced_s"] is None


def decision(kind: Any, query: str | None = "q", **figures: int) -> Decision:
    return Decision(0, 1, kind, "because", 3, figures=figures, query=query)


def test_the_loop_shows_what_was_taken_over() -> None:
    reports = [
        decision("lost", executors_lost=1),
        decision("standby", tasks_ahead=4, bytes_ahead=4 * MB),
        decision("copy", tasks_ahead=3, bytes_ahead=3 * MB),
        decision("done", None, tasks_ahead=2, state_bytes_ahead=2 * MB),
        decision("standby", None, tasks=12, tasks_ahead=12, bytes_ahead=12 * MB),
    ]
    assert taken_over(reports) == Ahead(6, 6 * MB)


def test_the_loop_shows_how_many_tasks_have_a_standby() -> None:
    there = decision("standby", None, tasks=12, tasks_ahead=12, bytes_ahead=12 * MB)
    assert standing_by([]) == standing_by([decision("standby", tasks_ahead=4)]) == 0
    assert standing_by([there, decision("standby", tasks_ahead=4)]) == 12
    assert standing_by([there, decision("standby", None)]) == 0


def test_decisions_that_tell_nothing_of_copies_took_nothing_over() -> None:
    assert taken_over([]) == taken_over([decision("standby"), decision("done")]) == NOTHING


@pytest.mark.parametrize(
    ("places", "sizes", "victim"),
    [
        ("0012", [1, 1, 1, 5], ("2", 1, 5)),
        ("0012", [2, 2, 4, 4], ("0", 2, 4)),
        ("2211", [1, 1, 1, 1], ("1", 2, 2)),
        ("9", [1], None),
    ],
)
def test_the_executor_with_most_state_is_killed_and_of_several_the_first(
    places: str, sizes: list[int], victim: tuple[str, int, int] | None
) -> None:
    assert chosen_victim(observation(0, places, sizes), {"0", "1", "2", "10"}) == victim


def test_executors_are_in_the_order_of_their_numbers() -> None:
    seen = observation(0, ["10", "9"], [1, 1])
    assert chosen_victim(seen, {"9", "10"}) == ("9", 1, 1)
