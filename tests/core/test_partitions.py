"""When a query has too few partitions, and how many would be enough."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.core.builders import QUERY, executors, load, observed

from elastream.core.application import Observed
from elastream.core.load import TaskLoad
from elastream.core.partitions import Repartitioning, Shortage, find_shortage, resumed_places
from elastream.model.observation import TaskId


def found(seen: Observed, last: Repartitioning | None = None) -> Shortage | None:
    return find_shortage(seen, seen.queries[QUERY], target=0.7, mark=0.8, last=last)


def test_a_task_that_a_core_does_not_bear_is_a_bottleneck_with_the_partitions_to_split_it() -> None:
    seen = observed(load([0.9, 0.2, 0.2, 0.2], "abab"), executors("a", "b"))
    report = found(seen)
    assert report == Shortage(
        query=QUERY,
        kind="bottleneck",
        partitions=4,
        enough=8,
        reason="partition 0 alone needs 0.90 of a core, which bears 0.80: 8 partitions in place of "
        "4 would do if its keys are alike; not if one key is hot, which is not known",
        figures={"partitions": 4, "partition": 0, "heaviest": 0.9, "mark": 0.8, "enough": 8},
    )


def test_a_backlog_that_grows_counts_as_load() -> None:
    kept_up = load([0.6, 0.2], "ab", rows_per_s=100.0, arrivals_per_s=100.0, backlog=0)
    behind = replace(kept_up, arrivals_per_s=250.0, backlog=1000)
    assert found(observed(kept_up, executors("a", "b"))) is None
    report = found(observed(behind, executors("a", "b")))
    assert report is not None
    assert (report.kind, report.enough) == ("bottleneck", 6)


def test_cores_that_can_hold_no_state_make_partitions_too_few() -> None:
    seen = observed(load([0.1] * 4, "abab"), executors("a", "b", "c", cores=2))
    report = found(seen)
    assert report is not None
    assert (report.kind, report.partitions, report.enough) == ("too few", 4, 8)
    assert report.reason == (
        "4 partitions, so that 2 of 6 slots can hold none of its state: 8 partitions would do"
    )


def test_cores_that_another_query_can_use_are_not_idle() -> None:
    alive = executors("a", "b", "c", cores=2)
    each = {name: load([0.1] * 4, "abab", query=name) for name in (QUERY, "other")}
    assert found(observed(each, alive)) is None


def test_one_partition_may_be_all_there_can_be() -> None:
    reports = found(observed(load([0.1], "a"), executors("a", "b")))
    assert reports is not None
    assert reports.reason.endswith("unless it has no key: then one is all there can be")


def test_an_operator_without_a_key_is_not_helped_by_partitions() -> None:
    keyed = load([0.1] * 4, "abab")
    single = TaskLoad("a", 0.95, 10.0, 1000.0, measured=True)
    both = replace(keyed, tasks={**keyed.tasks, TaskId(QUERY, 1, 0): single})
    report = found(observed(both, executors("a", "b")))
    assert report is not None
    assert report.enough is None
    assert "has no key" in report.reason


def test_a_task_that_more_partitions_did_not_split_is_a_hot_key() -> None:
    last = Repartitioning(before=4, partitions=8, share=0.6, began_ms=0)
    split = observed(load([0.9, *[0.45] * 7], "ab" * 4), executors("a", "b"))
    whole = observed(load([0.9, *[0.08] * 7], "ab" * 4), executors("a", "b"))
    report, hot = found(split, last), found(whole, last)
    assert report is not None
    assert hot is not None
    assert (report.enough, hot.enough) == (16, None)
    assert "one key is hot" in hot.reason


def test_nothing_is_said_of_a_query_whose_tasks_were_not_all_seen() -> None:
    seen = observed(load([0.9, 0.2], "ab"), executors("a", "b", "c"))
    query = replace(seen.queries[QUERY], tasks=4)
    assert find_shortage(seen, query, target=0.7, mark=0.8) is None


def test_resumed_tasks_go_where_their_load_is_least() -> None:
    seen = observed(load([0.8, 0.1], "aa"), executors("a", "b"), other={"b": 0.3})
    places = resumed_places(seen, seen.queries[QUERY], 4)
    assert {task.partition: node for task, node in places.items()} == {
        0: "a",
        1: "a",
        2: "b",
        3: "a",
    }


def test_resumed_tasks_of_a_query_without_work_are_spread_evenly() -> None:
    seen = observed(load([0.0] * 2, "aa"), executors("a", "b", "c"))
    places = resumed_places(seen, seen.queries[QUERY], 6)
    assert sorted(places.values()) == ["a", "a", "b", "b", "c", "c"]


def test_a_task_without_a_key_keeps_its_number_and_all_others_get_the_new_one() -> None:
    keyed = load([0.1] * 4, "abab")
    single = TaskLoad("a", 0.2, 10.0, 1000.0, measured=True)
    both = replace(keyed, tasks={**keyed.tasks, TaskId(QUERY, 1, 0): single})
    seen = observed(both, executors("a", "b"))
    places = resumed_places(seen, seen.queries[QUERY], 6)
    expected = {TaskId(QUERY, 0, each) for each in range(6)} | {TaskId(QUERY, 1, 0)}
    assert places.keys() == expected
    assert resumed_places(replace(seen, executors=()), seen.queries[QUERY], 6) == {}


@given(
    work=st.lists(st.floats(0.0, 5.0), min_size=1, max_size=12),
    alive=st.integers(1, 6),
    cores=st.integers(1, 4),
)
def test_enough_is_a_multiple_that_mends_what_was_found(
    work: list[float], alive: int, cores: int
) -> None:
    names = [str(number) for number in range(alive)]
    where = [names[number % alive] for number in range(len(work))]
    report = found(observed(load(work, where), executors(*names, cores=cores)))
    if report is None:
        assert max(work) <= 0.8 * (1 + 1e-6)
        assert alive * cores <= len(work)
        return
    assert report.enough is not None
    assert report.enough > report.partitions == len(work)
    assert report.enough % report.partitions == 0
    if report.kind == "bottleneck":
        assert max(work) * report.partitions / report.enough <= 0.7 * (1 + 1e-6)
    else:
        assert report.enough >= alive * cores
