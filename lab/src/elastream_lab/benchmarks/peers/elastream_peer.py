"""elastream as the trial sees it: results in commits, sizes through an attachment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from elastream.attachment import Attachment, attach
from elastream.model.errors import SparkError
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster
from elastream_lab.benchmarks.migration.mechanisms import live_policy
from elastream_lab.benchmarks.peers.figures import NEVER_MS
from elastream_lab.benchmarks.peers.rows import BALLAST_BYTES, PeerRows
from elastream_lab.benchmarks.peers.trial import SIZES
from elastream_lab.harness.commit_log import committed_batches
from elastream_lab.harness.job import RunningJob, running
from elastream_lab.harness.job_session import job_session
from elastream_lab.harness.replay import ReplayClock
from elastream_lab.harness.word_count import WordCount, warm_up_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray


_PARTITIONS: Final = 12
_TAU: Final = 0.1
_EXECUTOR_MEMORY_MB: Final = 800
_CHANGE_S: Final = 300.0
_LOOK_S: Final = 0.2
_CONFIG: Final = {"spark.sql.streaming.stateStore.maintenanceInterval": "10s"}
"""Snapshots of the state are soon in the checkpoint, so that an executor can load one."""


class ElastreamPeer:
    """A running query, and who steers it."""

    system = "elastream"

    def __init__(self, run: RunningJob, job: WordCount) -> None:
        self._run = run
        self._job = job
        self._visible_ms = np.full(job.recording.rows, NEVER_MS)
        self._last = -1
        self._attachment = self._attached(spares=0)

    def visible_ms(self) -> NDArray[np.float64]:
        """Return when the batch of each row was committed."""
        for batch in committed_batches(self._job.checkpoint, after=self._last):
            self._visible_ms[batch.start : batch.end] = batch.finished_ms
            self._last = batch.batch
        return self._visible_ms

    def check(self) -> None:
        """Raise ``SparkError`` where the query has ended by itself."""
        self._run.check()

    def scale_out(self, *, cold: bool) -> None:
        """Ask the loop; where it is not cold, it has a warm spare, which :meth:`scale_in` left."""
        if not cold and not self._has_warm_spare():
            raise SparkError("there is no warm spare")
        self._scale_to(SIZES[1])

    def scale_in(self) -> None:
        """Ask a loop that keeps whoever leaves as a warm spare, and wait for it."""
        self.let_go()
        self._attachment = self._attached(spares=SIZES[1] - SIZES[0])
        self._await(
            lambda: len(self._attachment.where()) == self._job.partitions,
            "no batch showed where the state is",
        )
        self._scale_to(SIZES[0])
        self._await(self._has_warm_spare, "no spare was warm")

    def wrong(self) -> int:
        """Stop the query at a batch boundary; return how many words have a wrong count."""
        self.let_go()
        self._run.stop()
        return self._job.wrong(self._run.spark)

    def let_go(self) -> None:
        """Leave the query alone; harmless if repeated."""
        self._attachment.detach()

    def _attached(self, *, spares: int) -> Attachment:
        least, most = SIZES
        policy = live_policy("live", least=least, most=most, tau=_TAU)
        (query,) = self._run.queries
        return attach(
            query,
            replace(policy, spares=spares),
            warm_up_stream=partial(warm_up_stream, job=self._job),
        )

    def _has_warm_spare(self) -> bool:
        return any(spare.warm for spare in self._attachment.state.spares)

    def _await(self, reached: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _CHANGE_S
        while not reached():
            if time.monotonic() > deadline:
                raise SparkError(f"{otherwise} within {_CHANGE_S:g} s")
            self.check()
            time.sleep(_LOOK_S)

    def _scale_to(self, executors: int) -> None:
        self._attachment.scale_to(executors)
        done = self._attachment.wait(_CHANGE_S)
        found = len(self._attachment.state.executors)
        if not done or found != executors:
            raise SparkError(f"{found} executors hold the state where {executors} were asked for")


@contextmanager
def elastream_peer(
    rows: PeerRows, clock: ReplayClock, folder: Path, *, trigger_s: float
) -> Iterator[ElastreamPeer]:
    """Give a query that waits for its first row."""
    job = WordCount(
        recording=rows.recording,
        clock=clock,
        checkpoint=folder / "checkpoint",
        partitions=_PARTITIONS,
        trigger_s=trigger_s,
        ballast_bytes=BALLAST_BYTES,
    )
    least, most = SIZES
    cluster = EmbeddedCluster(
        executors=least,
        max_executors=most,
        executor_memory_mb=_EXECUTOR_MEMORY_MB,
        config=_CONFIG,
    )
    with job_session(cluster) as spark, running(spark, job) as run:
        peer = ElastreamPeer(run, job)
        try:
            yield peer
        finally:
            peer.let_go()
