from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.observation import TaskId, TaskObservation
from elastream.spark.internals.event_tap import Added, TaskEvent, TaskTimes
from elastream.spark.internals.queries import StatefulOperator
from elastream.spark.observe.task_events import (
    METRICS,
    FinishedTask,
    Ledger,
    Written,
    batch_tasks,
    finished_task,
    lead_of,
    operator_graph,
    state_bytes,
    tasks_of,
)

PARTITIONS = 3
NAMES = {key: f"the {key}" for key in METRICS}


def operator(number: int, *, group: int = 0, rank: int = 0) -> StatefulOperator:
    return StatefulOperator(number, ("default",), PARTITIONS, "file:/c/state", "run", group, rank)


def finished(
    position: int, *, writers: tuple[int, ...] = (1,), executor: str = "0", **metrics: int
) -> FinishedTask:
    return FinishedTask(position, executor, run_ms=10, rows=5, writers=writers, metrics=metrics)


def event(*added: tuple[str, int], ended_well: bool = True) -> TaskEvent:
    numbered = enumerate(added)
    added_now = tuple(Added(name, i, n) for i, (name, n) in numbered)
    return TaskEvent(9, 4, 2, "7", ended_well, TaskTimes(0, 1, 2), added_now)


STATEFUL = ("the numStateStoreInstances", 1)


def test_an_event_shows_where_a_task_ran_how_long_on_how_many_rows_and_with_what_state() -> None:
    report = event(
        STATEFUL,
        ("the numTotalStateRows", 40),
        ("internal.metrics.executorRunTime", 135),
        ("internal.metrics.shuffle.read.recordsRead", 300),
        ("internal.metrics.input.recordsRead", 35),
        ("something else", 12),
    )
    metrics = {"numStateStoreInstances": 1, "numTotalStateRows": 40}
    assert finished_task(report, NAMES) == FinishedTask(2, "7", 135, 335, (0,), metrics)


def test_metrics_of_all_operators_in_a_task_add_up_and_unknown_ones_count_nothing() -> None:
    rows, unknown = "the numTotalStateRows", ("the stateMemory", -1)
    report = finished_task(event(STATEFUL, (rows, 3), (rows, 4), STATEFUL, unknown), NAMES)
    assert report.writers == (0, 3)
    assert report.metrics == {"numStateStoreInstances": 2, "numTotalStateRows": 7, "stateMemory": 0}


def test_failed_and_stateless_tasks_hold_no_state_and_are_work_all_the_same() -> None:
    took = ("internal.metrics.executorRunTime", 40)
    for row in (
        event(STATEFUL, took, ended_well=False),
        event(("number of output rows", 3), took),
        event(("the numStateStoreInstances", 0), took),
    ):
        task = finished_task(row, NAMES)
        assert (task.writers, task.run_ms, task.executor) == ((), 40, "7")


def test_what_a_batch_did_outside_stateful_tasks_is_reported_by_executor() -> None:
    tasks = [
        finished(0, executor="a"),
        finished(1, writers=(), executor="a"),
        finished(2, writers=(), executor="b"),
        finished(3, writers=(), executor="b"),
    ]
    seen = batch_tasks("q", tasks, [operator(0)], {})
    assert [task.task.partition for task in seen.tasks] == [0]
    assert seen.outside_ms == {"a": 10.0, "b": 20.0}


def test_operators_that_share_tasks_are_led_by_the_lowest_id() -> None:
    operators = [operator(2, group=1), operator(0, group=5), operator(1, group=1)]
    assert lead_of(operators) == {0: 0, 1: 1, 2: 1}


def test_each_task_is_reported_with_its_executor_time_rows_and_state() -> None:
    tasks = [
        finished(
            partition,
            executor=str(partition % 2),
            numTotalStateRows=10 + partition,
            numUpdatedStateRows=4,
            rocksdbTotalBytesWritten=400,
            rocksdbSstFileSize=0,
        )
        for partition in range(PARTITIONS)
    ]
    seen = batch_tasks("q", tasks, [operator(0)], {})
    assert seen.tasks == tuple(
        TaskObservation(
            TaskId("q", 0, partition),
            executor=str(partition % 2),
            run_ms=10.0,
            rows=5,
            state_rows=10 + partition,
            state_bytes=100 * (10 + partition),
        )
        for partition in range(PARTITIONS)
    )
    assert seen.ledger[TaskId("q", 0, 0)] == Written(400, 4)


def test_operators_that_share_tasks_are_reported_as_one() -> None:
    tasks = [finished(partition, writers=(1, 2)) for partition in range(PARTITIONS)]
    seen = batch_tasks("q", tasks, [operator(0, rank=1), operator(1, rank=0)], {})
    assert [task.task for task in seen.tasks] == [TaskId("q", 0, p) for p in range(PARTITIONS)]
    assert {task.run_ms for task in seen.tasks} == {10.0}


def test_a_task_that_ran_twice_counts_both_times_and_is_where_it_ran_last() -> None:
    first, again = (
        finished(0, executor=executor, numTotalStateRows=rows)
        for executor, rows in (("0", 3), ("1", 4))
    )
    (task,) = batch_tasks("q", [first, again], [operator(0)], {}).tasks
    assert (task.executor, task.run_ms, task.state_rows) == ("1", 20.0, 4)


def test_operators_in_different_stages_are_distinguished_by_the_order_of_their_accumulators() -> (
    None
):
    operators = [operator(0, group=2, rank=1), operator(1, group=1, rank=0)]
    tasks = [
        *(finished(partition, writers=(70,), executor="a") for partition in range(PARTITIONS)),
        *(finished(partition, writers=(9,), executor="b") for partition in range(PARTITIONS)),
    ]
    seen = batch_tasks("q", tasks, operators, {})
    assert {task.task: task.executor for task in seen.tasks} == {
        TaskId("q", number, partition): "ab"[number]
        for number in (0, 1)
        for partition in range(PARTITIONS)
    }


def test_operators_are_left_out_rather_than_mixed_up_where_one_did_not_run() -> None:
    operators = [operator(0, group=2, rank=1), operator(1, group=1, rank=0)]
    seen = batch_tasks("q", [finished(0)], operators, {})
    assert seen.tasks == ()
    assert seen.outside_ms == {"0": 10.0}, "its work is somebody's"


def test_a_union_puts_the_tasks_of_its_operators_behind_one_another() -> None:
    operators = [operator(0, group=1, rank=0), operator(1, group=2, rank=1)]
    tasks = [
        *(finished(p, writers=(1,), executor="0") for p in range(PARTITIONS)),
        *(finished(PARTITIONS + p, writers=(2,), executor="1") for p in range(PARTITIONS)),
    ]
    seen = batch_tasks("q", tasks, operators, {})
    assert {task.task: task.executor for task in seen.tasks} == {
        TaskId("q", number, partition): str(number)
        for number in (0, 1)
        for partition in range(PARTITIONS)
    }


def test_behind_a_union_an_incomplete_operator_is_left_out_rather_than_misread() -> None:
    tasks = [finished(PARTITIONS + 1), finished(PARTITIONS + 2)]
    assert batch_tasks("q", tasks, [operator(1)], {}).tasks == ()


@settings(max_examples=100)
@given(
    batches=st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 10**4), st.integers(0, 10**3)), max_size=5
    )
)
def test_what_was_written_is_summed_over_the_batches(batches: list[tuple[int, int, int]]) -> None:
    ledger: Ledger = {}
    for size, updated, removed in batches:
        task = finished(
            0,
            rocksdbTotalBytesWritten=size,
            numUpdatedStateRows=updated,
            numRemovedStateRows=removed,
        )
        ledger = batch_tasks("q", [task], [operator(0)], ledger).ledger
    total = Written(sum(b[0] for b in batches), sum(b[1] + b[2] for b in batches))
    assert ledger.get(TaskId("q", 0, 0), Written()) == total


def test_a_store_no_one_wrote_to_weighs_its_files_and_one_without_files_its_memory() -> None:
    rocksdb = {"rocksdbTotalBytesWritten": 0, "rocksdbSstFileSize": 900, "numTotalStateRows": 7}
    assert state_bytes(rocksdb, Written()) == 900
    assert state_bytes(rocksdb, Written(size=300, rows=3)) == 900
    assert state_bytes(rocksdb, Written(size=600, rows=3)) == 1400
    assert state_bytes({"stateMemory": 55, "numTotalStateRows": 7}, Written()) == 55


def test_rows_put_out_are_those_of_the_last_operator_in_the_task() -> None:
    out = "the numOutputRows"
    report = finished_task(event((out, 900), STATEFUL, (out, 30), STATEFUL, (out, 8)), NAMES)
    assert report.rows_out == {0: 900, 2: 30, 4: 8}
    assert report.writers == (1, 3)
    last = replace(operator(0, rank=0), output_step=1)
    first = replace(operator(1, rank=1), output_step=99)
    (task,) = batch_tasks("q", [report], [first, last], {}).tasks
    assert task.rows_out == 30


def test_no_rows_put_out_are_a_zero_where_they_are_reported_and_unknown_where_not() -> None:
    for step, expected in ((-4, 0), (None, None)):
        known = replace(operator(0), output_step=step)
        (task,) = batch_tasks("q", [finished(0)], [known], {}).tasks
        assert task.rows_out == expected


def test_operators_that_share_their_tasks_are_one_vertex_of_the_graph() -> None:
    def chained(number: int, group: int, reader: int | None) -> StatefulOperator:
        return StatefulOperator(number, ("default",), 4, "file:/c", "run", group, reader=reader)

    chain = [chained(0, 2, 1), chained(1, 1, 2), chained(2, 1, 3), chained(3, 0, None)]
    assert operator_graph(chain).feeds == {0: 1, 1: 3, 3: None}
    assert tasks_of("q", chain[:2]) == tuple(TaskId("q", o, p) for o in (0, 1) for p in range(4))
