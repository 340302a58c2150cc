"""The run: one query, alone and attached in turn, then through every change, then a loss.

All of it is one query on one cluster, so that what is compared was measured within minutes. A
stretch begins a batch after its conditions do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from elastream.attachment import Attachment, attach
from elastream.core.decisions import Decision
from elastream.core.policy import Movement, Policy, Timeouts
from elastream.goals.by_hand import ByHand
from elastream.model.errors import SparkError
from elastream.spark.sessions.settings import session_settings
from elastream_lab.benchmarks.realtime.figures import RealtimeResult, Stretch, longest_gap_ms
from elastream_lab.benchmarks.realtime.settings import PARTITIONS, RealtimeSettings
from elastream_lab.benchmarks.realtime.stream import RealtimeStream
from elastream_lab.mechanisms.executor_processes import executor_process, kill_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_PATIENCE_S: Final = 300.0
_POLICY: Final = Policy(
    max_executors=3,
    goal=ByHand(),
    tau=0.5,
    movement=Movement(tries=30, moves_per_batch=None, bytes_per_batch=None, copy_least_bytes=0),
    timeouts=Timeouts(grow_s=_PATIENCE_S, action_s=_PATIENCE_S, call_s=_PATIENCE_S),
)
"""Nothing changes unless it is asked for; then all that moves moves at one boundary."""


def run_realtime(
    settings: RealtimeSettings,
    *,
    say: Callable[[str], None],
    done: Callable[[RealtimeResult], None],
    failed: Callable[[str], None],
) -> None:
    """Run it; ``done`` gets each result at the end, ``failed`` what ended the run before that."""
    from elastream.spark.sessions.embedded_cluster import (
        EmbeddedCluster,
        embedded_session,
        scratch_folder,
    )

    config = {
        **session_settings(realtime=True, local_disk=True),
        "spark.sql.shuffle.partitions": str(PARTITIONS),
    }
    cluster = EmbeddedCluster(executors=1, max_executors=3, config=config)
    say("starting Spark")
    with embedded_session(cluster) as spark:
        with RealtimeStream(spark, settings, scratch_folder(spark) / "realtime") as stream:
            run = _Run(spark, settings, stream, say)
            try:
                run.steady()
                run.changes()
                run.loss()
            except SparkError as error:
                failed(str(error))
            say("checking every count")
            exact = stream.is_exact()
        for result in run.results(exact=exact):
            done(result)


@dataclass(frozen=True, slots=True)
class _Window:
    system: str
    what: str
    since_ms: float
    until_ms: float
    load: float
    rows_per_s: float
    change: tuple[int, int] | None = None
    seconds: float | None = None
    killed: bool = False


@dataclass(slots=True)
class _Run:
    spark: SparkSession
    settings: RealtimeSettings
    stream: RealtimeStream
    say: Callable[[str], None]
    windows: list[_Window] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def steady(self) -> None:
        """Let the query run alone and attached, in turn."""
        self.say("waiting for the first batches")
        self.stream.pass_batches(2)
        for number in range(self.settings.rounds):
            self.say(f"alone, round {number + 1} of {self.settings.rounds}")
            self._stretch("spark", "alone")
            self.say(f"attached, round {number + 1} of {self.settings.rounds}")
            with attach(self.stream.query, _POLICY, log=self._note) as attachment:
                self._until_placed(attachment, 1)
                self._stretch("elastream", "attached")

    def changes(self) -> None:
        """Take the query to two executors, its state to and fro, and back to one."""
        with attach(self.stream.query, _POLICY, log=self._note) as attachment:
            self._until_placed(attachment, 1)
            self.stream.pass_batches(1)
            self.stream.rows_a_second *= self.settings.burst
            self._change(attachment, "new executor", (1, 2), lambda: attachment.scale_to(2))
            self._until_placed(attachment, 2)
            self._stretch("elastream", "two executors")
            for _ in range(2):
                self._change(attachment, "move", (2, 2), lambda: self._swap(attachment))
            self.stream.rows_a_second /= self.settings.burst
            self._change(attachment, "executor leaves", (2, 1), lambda: attachment.scale_to(1))
            self._until_placed(attachment, 1)

    def loss(self) -> None:
        """Kill an executor of two, where the other has a standby of all it held."""
        policy = replace(_POLICY, standbys=1)
        stream, restart = self.stream, self.stream.start
        with attach(stream.query, policy, log=self._note, restart=restart) as attachment:
            self._until_placed(attachment, 1)
            attachment.scale_to(2)
            self._await(attachment)
            self._until_placed(attachment, 2)
            self.say("waiting for standbys")
            stream.until(
                lambda: any(each.kind == "standby" for each in self.decisions), "standbys are there"
            )
            stream.pass_batches(1)
            time.sleep(self.settings.trigger_s / 2)
            victim = next(iter(attachment.where().values()))
            self.say(f"killing executor {victim}")
            run = stream.query.runId
            killed_ms = 1000 * time.time()
            kill_process(executor_process(self.spark, victim))
            stream.until(
                lambda: stream.query.runId != run and stream.query.isActive,
                "the query is started again",
                lost=True,
            )
            stream.pass_batches(1)
            self._keep("elastream", "executor killed", killed_ms, (2, 1), killed=True)

    def results(self, *, exact: bool) -> list[RealtimeResult]:
        """Return what the windows came to; those of the same kind as one."""
        rows, found = self.stream.look(), []
        for system, what in dict.fromkeys((each.system, each.what) for each in self.windows):
            same = [each for each in self.windows if (each.system, each.what) == (system, what)]
            stretches = [Stretch.of(rows, each.since_ms, each.until_ms) for each in same]
            seconds = [each.seconds for each in same if each.seconds is not None]
            last = same[-1]
            gap_ms = longest_gap_ms(rows, last.since_ms, last.until_ms) if last.killed else None
            result = RealtimeResult(
                system=system,
                what=what,
                exact=exact,
                rows_per_s=last.rows_per_s,
                stretch=Stretch.joined(stretches),
                load=max(each.load for each in same),
                change=last.change,
                seconds=max(seconds, default=None),
                killed_gap_ms=gap_ms,
            )
            found.append(result)
        return found

    def _stretch(self, system: str, what: str) -> None:
        self.stream.pass_batches(1)
        since_ms = 1000 * time.time()
        self.stream.pass_batches(self.settings.batches)
        self._keep(system, what, since_ms)

    def _change(
        self,
        attachment: Attachment,
        what: str,
        change: tuple[int, int],
        ask: Callable[[], None],
    ) -> None:
        self.say(f"{what}, from {change[0]} to {change[1]} executors")
        since_ms = 1000 * time.time()
        ask()
        self._await(attachment)
        seconds = time.time() - since_ms / 1000
        if len(attachment.executors()) != change[1]:
            said = [each.reason for each in self.decisions if each.kind != "hold"]
            raise SparkError(f"{what}: {said[-1] if said else 'nothing was decided'}")
        self.stream.pass_batches(1)
        self._keep("elastream", what, since_ms, change, seconds)

    def _keep(
        self,
        system: str,
        what: str,
        since_ms: float,
        change: tuple[int, int] | None = None,
        seconds: float | None = None,
        *,
        killed: bool = False,
    ) -> None:
        load, rate = os.getloadavg()[0], self.stream.rows_a_second
        until_ms = 1000 * time.time()
        self.windows.append(
            _Window(system, what, since_ms, until_ms, load, rate, change, seconds, killed)
        )

    def _swap(self, attachment: Attachment) -> None:
        """Ask that every task goes to the other executor."""
        one, other = (each.id for each in attachment.executors())
        places = attachment.where()
        attachment.move({task: other if at == one else one for task, at in places.items()})

    def _await(self, attachment: Attachment) -> None:
        self.stream.until(lambda: attachment.wait(0.0), "the change is done")

    def _until_placed(self, attachment: Attachment, executors: int) -> None:
        def placed() -> bool:
            where = attachment.where()
            return len(where) == PARTITIONS and len(set(where.values())) == executors

        self.stream.until(placed, f"the tasks are known to be on {executors}")

    def _note(self, entry: Decision) -> None:
        self.decisions.append(entry)
        if entry.kind not in ("hold", "wait"):
            self.say(f"  {entry.kind}: {entry.reason}")
