from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from elastream.harness.commit_log import CommittedBatch
from elastream.model.errors import ElastreamError
from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream_lab.benchmarks.migration.trace import Resize, Trace, measured, share_on_new

MB = 1_000_000


def batch(number: int, *, began_s: float, took_s: float = 0.5) -> CommittedBatch:
    """Batch n reads the rows 10 n to 10 n + 9."""
    began_ms = began_s * 1000
    return CommittedBatch(number, 10 * number, 10 * number + 10, began_ms, began_ms + took_s * 1000)


def observation(number: int, executors: Sequence[str]) -> BatchObservation:
    tasks = tuple(
        TaskObservation(TaskId("q", 0, partition), executor, 100.0, 10, 5, MB)
        for partition, executor in enumerate(executors)
    )
    return BatchObservation("q", "run", number, 500.0, 10, None, 0, 1000.0, tasks)


def trace_of(batches: Sequence[CommittedBatch], places: Sequence[str]) -> Trace:
    """A row is due every tenth of a second; ``places[n]`` has the executor of each task."""
    seen = {b.batch: observation(b.batch, p) for b, p in zip(batches, places, strict=True)}
    due_ms = np.arange(10 * len(batches)) * 100
    return Trace(tuple(batches), seen, due_ms, 0.0, 0)


OUT = Resize("live", 2, 3, asked_ms=12_600, ends_ms=100_000, stops=False)


def steady(number: int) -> list[CommittedBatch]:
    """Batch n begins when its rows are due, at second n + 1, and takes half a second."""
    return [batch(n, began_s=n + 1) for n in range(number)]


def test_a_live_migration_is_measured_from_its_first_move_to_its_last() -> None:
    batches = steady(24)
    batches[13] = batch(13, began_s=14, took_s=0.9)
    batches[14] = batch(14, began_s=15, took_s=0.8)
    batches[16] = batch(16, began_s=17, took_s=0.7)
    batches[17] = batch(17, began_s=18, took_s=0.9)
    places = ["001111"] * 14 + ["201111"] * 2 + ["221111"] * 8
    found = measured(trace_of(batches, places), replace(OUT, after=3), tau=1.0)
    assert found.median_batch_ms_before == 500
    assert found.worst_batch_ms == 800
    assert found.worst_preparation_ms == 900
    assert (found.partitions_moved, found.state_bytes_moved) == (2, 2 * MB)
    assert found.preparation_s == pytest.approx(15 - 12.6)
    assert found.moving_s == pytest.approx(17.7 - 15)


def test_balance_is_reached_when_no_executor_holds_more_than_the_limit() -> None:
    places = ["000111"] * 14 + ["200111"] + ["200112"] * 9
    trace = trace_of(steady(24), places)
    assert measured(trace, OUT, tau=0.2).batches_until_balanced == 2
    assert measured(trace, OUT, tau=0.6).batches_until_balanced == 1


def test_an_executor_that_gets_nothing_never_balances() -> None:
    found = measured(trace_of(steady(24), ["000111"] * 24), OUT, tau=0.2)
    assert found.batches_until_balanced is None
    assert (found.partitions_moved, found.state_bytes_moved) == (0, 0)
    assert found.worst_batch_ms == 500


def test_a_scale_in_is_balanced_only_when_the_leaving_executor_is_empty() -> None:
    places = ["001122"] * 14 + ["001102"] + ["001101"] * 9
    back = replace(OUT, before=3, after=2)
    found = measured(trace_of(steady(24), places), back, tau=0.4)
    assert (back.direction, found.batches_until_balanced) == ("in", 2)


def test_a_stop_is_measured_by_the_time_without_a_batch_and_loads_everything() -> None:
    batches = steady(13) + [batch(n, began_s=n + 6) for n in range(13, 24)]
    places = ["000111"] * 13 + ["012012"] * 11
    stop = replace(OUT, mechanism="pause", stops=True)
    found = measured(trace_of(batches, places), stop, tau=0.2)
    assert found.worst_batch_ms == 6000
    assert (found.partitions_moved, found.state_bytes_moved) == (6, 6 * MB)
    assert found.batches_until_balanced == 1
    assert found.response is not None
    assert found.response.worst > 5000


def test_a_batch_that_no_monitor_saw_is_passed_over() -> None:
    places = ["000111"] * 14 + ["200111"] + ["200112"] * 9
    trace = trace_of(steady(24), places)
    unseen = {number: seen for number, seen in trace.seen.items() if number != 15}
    found = measured(replace(trace, seen=unseen), OUT, tau=0.2)
    assert (found.partitions_moved, found.batches_until_balanced) == (2, 3)


def test_a_change_without_batches_around_it_is_refused() -> None:
    with pytest.raises(ElastreamError, match="no batch"):
        measured(trace_of(steady(5), ["01"] * 5), OUT, tau=0.2)


def test_response_time_is_from_due_to_commit() -> None:
    found = measured(trace_of(steady(24), ["000111"] * 24), OUT, tau=0.2)
    assert found.response_before is not None
    # Row k of a batch is due k tenths into a second, and committed half a second after its end.
    assert found.response_before.worst == pytest.approx(1500)
    assert found.response_before.median == pytest.approx(1050)


def test_the_share_of_the_work_on_a_new_executor_is_told_batch_by_batch() -> None:
    places = ["001111"] * 14 + ["201111"] * 2 + ["221111"] * 8
    shares = share_on_new(trace_of(steady(24), places), OUT)
    assert shares[0][0] == pytest.approx(1.5 - 12.6)
    assert [share for _, share in shares] == pytest.approx([0] * 14 + [1 / 6] * 2 + [2 / 6] * 8)
