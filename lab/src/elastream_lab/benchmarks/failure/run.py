"""One run of the failure benchmark: a steady stream, and the death of one of its executors.

Before the stream begins, its tasks are spread evenly over the executors through the coordinator
once, under every way: left to itself Spark has put seven of twelve on one of three. Before the kill
the query is up to date, and is left alone for more than the ten batches that are the steady ones.
The executor is killed in the middle of a batch, half as long after its beginning as the steady ones
take, so that every run is hit alike. Nothing here acts after that: the way does. The run waits
until it is done and the query steady again and up to date, though not for ever, and for ten batches
more.
"""

from __future__ import annotations

import math
import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Final

from elastream.attachment import attach
from elastream.core.decisions import Decision
from elastream.core.policy import Policy
from elastream.core.ports import Ticket
from elastream.model.errors import SparkError
from elastream.model.words import pluralize
from elastream.spark.steer.placement import SparkStatePlacement
from elastream_lab.benchmarks.elasticity.executors import ExecutorWatch
from elastream_lab.benchmarks.elasticity.figures import ExecutorLife
from elastream_lab.benchmarks.failure.loss import Loss, chosen_victim, standing_by, taken_over
from elastream_lab.benchmarks.migration.run import (
    BETWEEN,
    StreamRun,
    await_steady,
    await_up_to_date,
    lead_in,
)
from elastream_lab.harness.replaying import Replay
from elastream_lab.harness.word_count import warm_up_stream
from elastream_lab.mechanisms.executor_processes import executor_process, kill_process
from elastream_lab.mechanisms.running_stream import RunningStream, stopped_at_the_end
from elastream_lab.mechanisms.trace import Ahead, Resize, steady_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOOK_S: Final = 0.01
_STANDBYS_S: Final = 120.0
"""So long standbys may take to be there; then the kill comes all the same."""
_BATCH_S: Final = 60.0
"""So long it may take until a batch begins."""
_DONE_S: Final = 300.0
"""So long a way may take until there are as many executors as before."""


class Caretaker:
    """What sees to a lost executor: elastream's loop, or no one but Spark where no policy is."""

    def __init__(self, run: StreamRun, stream: RunningStream, policy: Policy | None) -> None:
        self._internals = stream.internals
        self._executors = run.executors[1]
        self._decisions: list[Decision] = []
        self._victim, self._before = "", 0
        self._has_standbys = policy is not None and policy.standbys > 0
        self._attachment = None
        if policy is not None:
            self._attachment = attach(
                stream.query,
                policy,
                log=self._decisions.append,
                warm_up_stream=partial(warm_up_stream, job=run.job),
            )

    @property
    def rests(self) -> bool:
        """Whether nothing is under way."""
        return self._attachment is None or self._attachment.wait(0.0)

    @property
    def is_ready(self) -> bool:
        """Whether nothing is under way, and standbys, where there shall be some, are there."""
        return self.rests and (standing_by(self._decisions) > 0 or not self._has_standbys)

    def mark(self, victim: str) -> None:
        """Take note that this executor is lost now."""
        self._victim, self._before = victim, len(self._decisions)

    @property
    def is_done(self) -> bool:
        """Whether the loss was noticed, all executors are there again and nothing is under way."""
        alive = {entry.id for entry in self._internals.executors()}
        if self._victim in alive or len(alive) < self._executors:
            return False
        noticed = any(decision.kind == "lost" for decision in self._since)
        return self._attachment is None or (noticed and self.rests)

    @property
    def taken_over(self) -> Ahead:
        """What was taken over from copies since the loss."""
        return taken_over(self._since)

    @property
    def _since(self) -> list[Decision]:
        return self._decisions[self._before :]

    def close(self) -> None:
        """Leave the query alone."""
        if self._attachment is not None:
            self._attachment.detach()


def run_with_a_loss(run: StreamRun, spark: SparkSession, policy: Policy | None) -> Loss:
    """Run the stream, kill an executor, and see it through; the change is noted in the run."""
    with stopped_at_the_end(RunningStream(spark, run.job, run.seen.append)) as stream:
        replay = Replay(run.job.feeds, stream.check)
        lead_in(run, replay)
        _spread(run, replay, stream)
        replay.begin()
        caretaker = Caretaker(run, stream, policy)
        try:
            return _lost(run, replay, stream, caretaker)
        finally:
            caretaker.close()


def _spread(run: StreamRun, replay: Replay, stream: RunningStream) -> None:
    """Give every executor as many tasks, wherever Spark put them: all runs begin alike."""
    replay.wait(lambda: bool(run.seen))
    (watched,) = stream.monitor.watched()
    executors = [entry.id for entry in stream.internals.executors()]
    wanted = {task: executors[n % len(executors)] for n, task in enumerate(watched.tasks)}
    placement = SparkStatePlacement(stream.internals, stream.monitor)
    placement.place(watched.name, wanted, ticket=Ticket())


def _lost(run: StreamRun, replay: Replay, stream: RunningStream, caretaker: Caretaker) -> Loss:
    _await_ready(run, replay, caretaker)
    await_up_to_date(run, replay)
    replay.wait_for_batches(BETWEEN)
    watch = ExecutorWatch(stream.internals)
    victim, tasks, state_bytes = _victim(run, stream)
    run.say(f"killing executor {victim}, which has {pluralize(tasks, 'task')}")
    _await_middle_of_a_batch(run, replay)
    pid = executor_process(stream.internals.spark, victim)
    caretaker.mark(victim)
    killed_ms = time.time() * 1000
    kill_process(pid)
    done_ms = _done_ms(run, replay, caretaker)
    await_steady(run, replay, killed_ms, done_ms)
    await_up_to_date(run, replay)
    replay.wait_for_batches(BETWEEN)
    ends_ms = time.time() * 1000
    executors = run.executors[1]
    run.changes.append(
        Resize(
            run.mechanism, executors, executors, killed_ms, done_ms, ends_ms, caretaker.taken_over
        )
    )
    lives = watch.lives()
    went_ms = next((life.went_ms for life in lives if life.id == victim), math.inf)
    if went_ms == math.inf:
        raise SparkError(f"Spark never reported that executor {victim} is gone")
    return Loss(victim, tasks, state_bytes, went_ms - killed_ms, _replaced_s(lives, killed_ms))


def _replaced_s(lives: tuple[ExecutorLife, ...], killed_ms: float) -> float | None:
    came = [life.came_ms for life in lives if life.came_ms > killed_ms]
    return (min(came) - killed_ms) / 1000 if came else None


def _victim(run: StreamRun, stream: RunningStream) -> tuple[str, int, int]:
    alive = {entry.id for entry in stream.internals.executors()}
    victim = chosen_victim(run.seen[-1], alive) if run.seen else None
    if victim is None:
        raise SparkError("no batch has shown where its state is")
    return victim


def _await_ready(run: StreamRun, replay: Replay, caretaker: Caretaker) -> None:
    """Wait until the way has what it wants to have before a loss."""
    deadline = time.monotonic() + _STANDBYS_S
    replay.wait(lambda: caretaker.is_ready or time.monotonic() > deadline)
    if not caretaker.is_ready:
        run.say(f"no standbys are there after {_STANDBYS_S:g} s")


def _await_middle_of_a_batch(run: StreamRun, replay: Replay) -> None:
    """Wait until the next batch has run for half as long as the steady ones take."""
    replay.look()
    (batches,) = replay.batches
    steady_ms = median(batch.duration_ms for batch in steady_batches(batches, math.inf))
    offsets = run.job.checkpoint / "offsets"
    begun = batches[-1].batch
    while (offsets / str(begun + 1)).exists():
        begun += 1
    deadline = time.monotonic() + _BATCH_S
    while not (offsets / str(begun + 1)).exists():
        if time.monotonic() > deadline:
            raise SparkError(f"no batch has begun within {_BATCH_S:g} s")
        time.sleep(_LOOK_S)
    time.sleep(steady_ms / 2000)


def _done_ms(run: StreamRun, replay: Replay, caretaker: Caretaker) -> float:
    """Wait until the way is done, and return when that was."""
    run.say("waiting for an executor in its place")
    deadline = time.monotonic() + _DONE_S
    replay.wait(lambda: caretaker.is_done or time.monotonic() > deadline)
    done_ms = time.time() * 1000
    if not caretaker.is_done:
        raise SparkError(f"the loss was not made up for within {_DONE_S:g} s")
    return done_ms
