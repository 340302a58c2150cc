"""What the rows of a Real-time query say of its latency."""

from __future__ import annotations

import json

from elastream_lab.benchmarks.realtime.figures import (
    RealtimeResult,
    Result,
    Stretch,
    longest_gap_ms,
    ratios,
)

CONTRACT = {"system", "exact", "rows_per_s", "steady_latency_ms"}


def results(latency_ms: float = 10, gap_ms: float = 600, batches: int = 3) -> list[Result]:
    """A row each 100 ms, batches of 10 seconds; the rows of a gap come at its end."""
    found = []
    for due_ms in range(0, batches * 10_000, 100):
        batch, into_ms = divmod(due_ms, 10_000)
        waits_ms = gap_ms - into_ms if batch and into_ms < gap_ms else 0
        found.append(Result(batch, due_ms, due_ms + waits_ms + latency_ms))
    return found


def result(system: str, what: str, stretch: Stretch, **more: object) -> RealtimeResult:
    return RealtimeResult(system, what, True, 10.0, stretch, 2.0, **more)  # type: ignore[arg-type]


def test_rows_within_a_second_of_a_boundary_are_not_steady() -> None:
    stretch = Stretch.of(results(), 5_000, 25_000)
    assert {round(each) for each in stretch.steady_ms} == {10}
    assert [(each.ended_ms, each.began_ms) for each in stretch.boundaries] == [
        (9_910, 10_610),
        (19_910, 20_610),
    ]
    assert [each.worst_ms for each in stretch.boundaries] == [610, 610]
    assert [len(each.latencies_ms) for each in stretch.boundaries] == [20, 20]


def test_a_gap_longer_than_a_second_is_of_its_boundary() -> None:
    stretch = Stretch.of(results(gap_ms=4_000), 0, 15_000)
    assert max(stretch.steady_ms) == 10
    assert stretch.around_boundaries.worst == 4_010


def test_a_stretch_has_the_boundaries_that_begin_in_it() -> None:
    every = results()
    first, second = Stretch.of(every, 0, 15_000), Stretch.of(every, 15_000, 30_000)
    assert [len(each.boundaries) for each in (first, second)] == [1, 1]
    whole = Stretch.joined((first, second))
    assert len(whole.boundaries) == 2
    assert len(whole.steady_ms) == len(first.steady_ms) + len(second.steady_ms)
    assert whole.gap_ms == 700


def test_the_longest_gap_counts_from_the_kill() -> None:
    rows = [Result(0, at_ms, at_ms) for at_ms in (0, 100, 4_000, 4_100)]
    assert longest_gap_ms(rows, 50, 5_000) == 3_900
    assert longest_gap_ms([], 50, 5_000) == 0


def test_ratios_are_of_one_run() -> None:
    alone = result("spark", "alone", Stretch.of(results(), 0, 30_000))
    slow = Stretch.of(results(latency_ms=20, gap_ms=1200), 0, 30_000)
    found = ratios([alone, result("elastream", "attached", slow)])
    assert found == {"steady_median": 2.0, "steady_p99": 2.0, "boundary_worst": 2.0}
    assert ratios([alone]) == {}


def test_the_summary_has_what_others_read() -> None:
    stretch = Stretch.of(results(), 0, 30_000)
    steady = result("spark", "alone", stretch).as_json()
    assert steady.keys() >= CONTRACT | {"boundary_latency_ms"}
    killed = result("elastream", "x", stretch, change=(2, 1), killed_gap_ms=2900.4).as_json()
    assert killed["change"] == [2, 1]
    assert killed["change_latency_ms"] == {"p99": 610, "worst": 610}
    assert killed["executor_killed"] == {"gap_ms": 2900}
    json.dumps([steady, killed])
