"""``elastream.attach`` on real executors: it scales, it survives faults, it lets go."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from tests.spark.processes import kill
from tests.spark.quiet_files import QuietFiles
from tests.spark.running_query import BY_HAND, PATIENCE_S, back_to_two, committed_rows, until
from tests.spark.streams import (
    aggregation,
    aggregation_answer,
    aggregation_state,
    numbers,
)

from elastream import (
    AlreadyAttachedError,
    Attachment,
    Decision,
    ElastreamError,
    Infeasible,
    Policy,
    ProblemError,
    QueryRefusedError,
    StepPlan,
    StepProblem,
    attach,
    read_decisions,
)
from elastream.control.commands import Answer
from elastream.control.local_door import ask_locally
from elastream.core.scene_lines import laid_over
from elastream.core.scenes import take_scene
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.sessions.embedded_cluster import scratch_folder
from elastream_lab.rivals.catalog import STEP_PLANNERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STEPWISE = replace(BY_HAND, movement=replace(BY_HAND.movement, moves_per_batch=1))


@contextmanager
def counting(
    spark: SparkSession, checkpoint: Path, name: str = "counting"
) -> Iterator[StreamingQuery]:
    query = (
        aggregation(spark)
        .writeStream.format("noop")
        .outputMode("update")
        .queryName(name)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="500 milliseconds")
        .start()
    )
    try:
        yield query
    finally:
        query.stop()
        back_to_two(SparkInternals.of(spark))


def holders(attachment: Attachment) -> set[str]:
    return set(attachment.where().values())


def await_tasks(attachment: Attachment, number: int = 4) -> None:
    until(lambda: len(attachment.where()) == number, f"{number} tasks are seen")


def knows_heaps(attachment: Attachment) -> bool:
    memory = attachment.state.executor_memory
    return len(memory) == 2 and all(each.heap_peak is not None for each in memory.values())


def kinds(decisions: list[Decision]) -> list[str]:
    return [decision.kind for decision in decisions]


def assert_exact(spark: SparkSession, query: StreamingQuery, checkpoint: Path) -> None:
    query.stop()
    assert aggregation_state(spark, str(checkpoint)) == aggregation_answer(
        committed_rows(checkpoint)
    )


def assert_two_changes_moved_what_was_planned(decisions: list[Decision]) -> Decision:
    """Return the first plan."""
    plans = [decision for decision in decisions if decision.kind == "plan"]
    ends = [decision for decision in decisions if decision.kind == "done"]
    assert len(plans) == len(ends) == 2, [decision.reason for decision in decisions]
    for plan, end in zip(plans, ends, strict=True):
        assert end.figures["tasks_moved"] == plan.figures["tasks_to_move"]
        moved, planned = end.figures["state_bytes_moved"], plan.figures["state_bytes_to_move"]
        assert moved == pytest.approx(planned, rel=0.25, abs=2000), "states grow meanwhile"
    return plans[0]


@pytest.fixture
def checkpoint(spark: SparkSession) -> Iterator[Path]:
    folder = scratch_folder(spark) / f"attach-{time.monotonic_ns()}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow  # tests/core simulates it
def test_a_scale_out_takes_the_spare_and_a_scale_in_keeps_one(
    spark: SparkSession, checkpoint: Path
) -> None:
    decisions: list[Decision] = []
    with counting(spark, checkpoint) as query:
        with attach(query, replace(BY_HAND, spares=1), log=decisions.append) as attachment:
            await_tasks(attachment)
            until(lambda: any(s.warm for s in attachment.state.spares), "a spare is warm")
            (spare,) = attachment.state.spares
            assert spare.id not in holders(attachment)
            assert len(attachment.executors()) == 3
            attachment.scale_to(3)
            assert attachment.wait(PATIENCE_S)
            assert spare.id in holders(attachment)
            attachment.scale_to(2)
            assert attachment.wait(PATIENCE_S)
            assert len(holders(attachment)) == 2
            assert len(SparkInternals.of(spark).executors()) == 3
            assert len(attachment.state.spares) == 1
        assert_exact(spark, query, checkpoint)
    assert kinds(decisions).count("done") == 2
    assert "abandon" not in kinds(decisions)


def test_a_query_is_scaled_out_and_in_and_steered_from_outside_its_program_and_stays_exact(
    spark: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    log, path = tmp_path / "decisions.jsonl", tmp_path / "run.sock"

    def ask(**record: object) -> Answer:
        return ask_locally(path, record)

    with counting(spark, checkpoint) as query:
        attachment = attach(query, STEPWISE, log=log, control=path)
        await_tasks(attachment)
        assert [each.name for each in attachment.queries] == ["counting"]
        target = min(holders(attachment))
        attachment.move(dict.fromkeys(attachment.where(), target))
        until(lambda: attachment.state.phase.name == "moving", "tasks move")
        assert "the move under way ends here" in ask(command="pause").says
        assert attachment.wait(PATIENCE_S)
        assert len(holders(attachment)) == 2, "what had not moved stays where it was"
        refused = ask(command="set", fields={"tau": "0.4", "max_executors": "0"})
        assert not refused.taken
        assert refused.says.startswith("max_executors: 0 ")
        assert attachment.state.policy == STEPWISE
        assert not ask(command="set", fields={"repartition": "true"}).taken
        assert ask(command="set", fields={"tau": "0.4"}).taken
        assert ask(command="scale", executors=3).taken, "by hand also while paused"
        assert attachment.wait(PATIENCE_S)
        assert len(attachment.executors()) == len(holders(attachment)) == 3
        assert ask(command="resume").taken
        attachment.scale_to(2)
        assert attachment.wait(PATIENCE_S)
        assert len(SparkInternals.of(spark).executors()) == len(holders(attachment)) == 2
        assert ask(command="detach").taken
        until(lambda: attachment.state.phase.detached, "it has let go")
        assert not ask(command="scale", executors=2).taken
        attachment.detach()
        assert query.isActive, "detaching leaves the query running"
        assert not path.exists()
        assert_exact(spark, query, checkpoint)
    decisions = list(read_decisions(log))
    assert (decisions[0].kind, decisions[-1].kind) == ("attach", "detach")
    story = [kind for kind in kinds(decisions) if kind in ("pause", "abandon", "refuse", "update")]
    assert story == ["pause", "abandon", "refuse", "refuse", "update"]
    assert "asked for by" in decisions[-1].reason
    assert_two_changes_moved_what_was_planned(decisions[kinds(decisions).index("update") :])


@pytest.mark.slow  # test_application.py kills one, tests/core any
def test_an_executor_killed_in_the_middle_of_a_migration_is_acted_on_and_nothing_is_lost(
    spark: SparkSession, checkpoint: Path
) -> None:
    decisions: list[Decision] = []
    policy = replace(STEPWISE, movement=replace(STEPWISE.movement, warm_up=False))
    with (
        counting(spark, checkpoint) as query,
        attach(query, policy, log=decisions.append) as attachment,
    ):
        await_tasks(attachment)
        before = {executor.id for executor in attachment.executors()}
        attachment.scale_to(3)
        until(lambda: "migrate" in kinds(decisions), "tasks move")
        kill(spark, ({executor.id for executor in attachment.executors()} - before).pop())
        until(lambda: "lost" in kinds(decisions), "the loss is noticed")
        assert attachment.wait(PATIENCE_S)
        last = query.lastProgress
        until(lambda: (query.lastProgress or last) != last, "the query goes on")
        assert_exact(spark, query, checkpoint)
    assert kinds(decisions)[kinds(decisions).index("lost") + 1 :].count("replan") <= 3


@pytest.mark.slow  # tests/core simulates queries that end
def test_a_checkpoint_that_cannot_be_read_ends_the_query_and_the_query_leaves(
    spark: SparkSession, checkpoint: Path
) -> None:
    decisions: list[Decision] = []
    with counting(spark, checkpoint) as query:
        attachment = attach(query, STEPWISE, log=decisions.append)
        await_tasks(attachment)
        where = attachment.where()
        task = min(where)
        other = next(e.id for e in attachment.executors() if e.id != where[task])
        store = checkpoint / "state" / str(task.operator) / str(task.partition)
        shutil.rmtree(store)
        store.write_text("no state here")
        attachment.move({task: other})
        until(lambda: not query.isActive, "the query has ended")
        until(lambda: "leave" in kinds(decisions), "it has left the loop")
        (left,) = (decision for decision in decisions if decision.kind == "leave")
        assert left.reason.startswith("the query has ended: ")
        assert attachment.queries == ()
        assert attachment.wait(PATIENCE_S), "nothing waits for it any more"
        attachment.detach()


def test_what_cannot_be_steered_is_refused_in_one_line_and_left_alone(
    spark: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    stateless = numbers(spark).writeStream.format("noop").trigger(processingTime="1 hour").start()
    rate = spark.readStream.format("rate").load().writeStream.format("noop")
    continuous = rate.trigger(continuous="1 second").start()
    with counting(spark, checkpoint) as stopped:
        stopped.stop()
    try:
        for query, why in (
            (stateless, "keeps no state, so there is none to place"),
            (continuous, "runs continuously"),
            (stopped, "is not running"),
        ):
            with pytest.raises(QueryRefusedError, match=why) as refused:
                attach(query, BY_HAND)
            assert "\n" not in str(refused.value)
        with pytest.raises(QueryRefusedError, match="there is no query"):
            attach([], BY_HAND)
        with pytest.raises(QueryRefusedError, match="is neither a streaming query nor a session"):
            attach("counting", BY_HAND)  # type: ignore[arg-type]
        (tmp_path / "notes").write_text("milk\n")
        with pytest.raises(ProblemError, match="is not a decision log"):
            attach(spark, BY_HAND, log=tmp_path / "notes")
        assert stateless.isActive
        assert continuous.isActive
    finally:
        stateless.stop()
        continuous.stop()


@pytest.mark.slow  # test_application.py has one
def test_a_query_on_a_quiet_source_is_attached_at_once_and_joins_with_its_first_batch(
    spark: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    files = QuietFiles(spark, tmp_path / "in")
    decisions: list[Decision] = []
    writer = files.counts().writeStream.format("noop").outputMode("update").queryName("quiet")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        with attach(query, BY_HAND, log=decisions.append) as attachment:
            assert kinds(decisions)[:1] in ([], ["attach"])
            files.feed(100)
            until(lambda: "join" in kinds(decisions), "it takes part")
            files.feed(100)
            await_tasks(attachment)
    finally:
        query.stop()


@pytest.mark.slow  # test_application.py has queries that come and go
def test_a_query_that_reads_all_there_is_and_ends_takes_part_while_it_runs(
    spark: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    files = QuietFiles(spark, tmp_path / "in")
    decisions: list[Decision] = []
    for _ in range(6):
        files.feed(200)
    source = spark.readStream.schema("k long").option("maxFilesPerTrigger", 1)
    counts = source.json(str(tmp_path / "in")).groupBy("k").count()
    with attach(spark, BY_HAND, log=decisions.append):
        writer = counts.writeStream.format("noop").outputMode("update").queryName("once")
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        assert writer.start().awaitTermination(int(PATIENCE_S))
        until(lambda: {"join", "leave"} <= set(kinds(decisions)), "it has come and gone")
    assert files.found(checkpoint) == files.expected()


@dataclass(frozen=True)
class Made:
    """A planner of one's own: here what others do."""

    name: str
    contiguous: bool = False

    def __call__(self, problem: StepProblem) -> StepPlan | Infeasible:
        return STEP_PLANNERS[self.name](problem)


@pytest.mark.slow
@pytest.mark.parametrize(
    "planner", ["transition", "single-step", "consistent-hashing", "even-split", "redist"]
)
def test_every_planner_moves_what_it_says_and_results_stay_exact(
    spark: SparkSession, checkpoint: Path, planner: Any
) -> None:
    chosen = planner if "step" in planner or planner == "transition" else Made(planner)
    decisions: list[Decision] = []
    policy = replace(
        STEPWISE,
        planner=chosen,
        movement=replace(STEPWISE.movement, warm_up=False, moves_per_batch=2),
    )
    with counting(spark, checkpoint) as query:
        with attach(query, policy, log=decisions.append) as attachment:
            await_tasks(attachment)
            for executors in (3, 2):
                attachment.scale_to(executors)
                assert attachment.wait(PATIENCE_S)
        assert_exact(spark, query, checkpoint)
    first = assert_two_changes_moved_what_was_planned(decisions)
    if planner == "transition":
        assert "transition knows too little" in first.reason


@pytest.mark.slow
def test_a_request_for_executors_that_hangs_is_not_carried_out_after_detaching(
    spark: SparkSession, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, woken, asked = threading.Event(), threading.Event(), []
    request = SparkInternals.request_executors

    def hang(self: SparkInternals, total: int) -> bool:
        if total == 3 and threading.current_thread().name == "elastream act":
            hanging.set()
            assert woken.wait(PATIENCE_S)
            asked.append(total)
        return request(self, total)

    monkeypatch.setattr(SparkInternals, "request_executors", hang)
    with counting(spark, checkpoint) as query:
        attachment = attach(query, BY_HAND)
        await_tasks(attachment)
        attachment.scale_to(3)
        assert hanging.wait(PATIENCE_S)
        attachment.detach()
        woken.set()
        until(lambda: bool(asked), "the call has come back")
        internals = SparkInternals.of(spark)
        worker = [t for t in threading.enumerate() if t.name == "elastream act"]
        for thread in worker:
            thread.join(PATIENCE_S)
        until(lambda: len(internals.executors()) == 2, "what came is given back")
        last = query.lastProgress
        until(lambda: (query.lastProgress or last) != last, "the query goes on")
        assert len(internals.executors()) == 2


@pytest.fixture(scope="module")
def counted(spark: SparkSession) -> Iterator[StreamingQuery]:
    """A query that the tests below attach to; it runs until they have ended."""
    folder = scratch_folder(spark) / f"counted-{time.monotonic_ns()}"
    with counting(spark, folder, "counted") as query:
        yield query


def test_attaching_again_joins_the_loop_where_the_policy_is_equal_and_is_refused_where_not(
    counted: StreamingQuery,
) -> None:
    first = attach(counted, STEPWISE)
    second = attach(counted, replace(STEPWISE))
    assert second.state.executors == first.state.executors
    with pytest.raises(AlreadyAttachedError, match="attached already, with another policy"):
        attach(counted, replace(STEPWISE, tau=0.4))
    first.detach()
    await_tasks(second)
    second.detach()
    second.detach()
    attach(counted, replace(STEPWISE, tau=0.4)).detach()
    assert counted.isActive


def test_a_page_shows_where_tasks_are_and_the_attachment_explains_itself(
    counted: StreamingQuery,
) -> None:
    with attach(counted, STEPWISE, page=0) as attachment:
        await_tasks(attachment)
        assert attachment.page is not None
        place = urlsplit(attachment.page)
        connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
        connection.request("GET", "/events")
        seen: dict[str, Any] = {}
        for line in connection.getresponse():
            if line.startswith(b"data: ") and b'"scene"' in line:
                seen = laid_over(seen, json.loads(line.removeprefix(b"data: ")))
                if len(seen["tasks"]) == len(attachment.where()):
                    break
        connection.close()
        places = {task: batch[0] for task, batch in seen["tasks"].items()}
        assert places == {str(task): node for task, node in attachment.where().items()}
        assert seen["executors"].keys() == {each.id for each in attachment.executors()}
        until(lambda: knows_heaps(attachment), "heartbeats have reported the heaps")
        for shown in take_scene(attachment.state).executors.values():
            assert shown.store_memory_bytes > 0
            assert shown.memory.heap_limit == 700 << 20
            assert shown.memory.limit is None, "no container"
        assert "There are 2 executors." in attachment.explain()
        assert "steady" in repr(attachment)
        assert attachment._repr_html_().count("<tr>") == 3
    with pytest.raises(ConnectionError):
        HTTPConnection(place.hostname or "", place.port).request("GET", "/")


def test_a_port_that_cannot_be_had_is_reported_and_nothing_is_attached(
    counted: StreamingQuery,
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ElastreamError, match="the page cannot listen"),
    ):
        attach(counted, STEPWISE, page=taken.getsockname()[1])
    attach(counted, replace(STEPWISE, tau=0.5)).detach()


def test_advise_only_decides_and_changes_nothing(
    spark: SparkSession, counted: StreamingQuery
) -> None:
    decisions: list[Decision] = []
    policy = Policy(
        max_executors=3, min_executors=3, patience=1, cooldown_s=0, advise_only=True
    )  # two are too few by its bounds
    with attach(counted, policy, log=decisions.append) as attachment:
        until(lambda: "advise" in kinds(decisions), "it advises")
        assert len(SparkInternals.of(spark).executors()) == 2
        assert len(holders(attachment)) <= 2


def test_a_setting_that_would_make_moves_cheaper_is_advised_and_the_query_attached(
    spark: SparkSession, counted: StreamingQuery, caplog: pytest.LogCaptureFixture
) -> None:
    name = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    spark.conf.set(name, "false")
    try:
        with attach(counted, BY_HAND):
            pass
    finally:
        spark.conf.set(name, "true")
    assert counted.isActive
    assert f"{name} is false; set it to true" in caplog.text
