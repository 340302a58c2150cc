"""Flink as the trial sees it: results in a mapped file, sizes through the REST interface."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from elastream.spark.sessions.java import java_home
from elastream_lab.benchmarks.peers.figures import NEVER_MS
from elastream_lab.benchmarks.peers.flink.cluster import FlinkCluster, FlinkJob, flink_cluster
from elastream_lab.benchmarks.peers.flink.compiled_job import ENTRY, compiled_job
from elastream_lab.benchmarks.peers.flink.installation import FlinkInstallation
from elastream_lab.benchmarks.peers.rows import (
    BALLAST_BYTES,
    PeerRows,
    running_counts,
    words_of,
)
from elastream_lab.benchmarks.peers.trial import SIZES
from elastream_lab.harness.replay import ReplayClock
from elastream_lab.harness.word_count import BALLAST

if TYPE_CHECKING:
    from numpy.typing import NDArray


RESULT: Final = np.dtype([("count", ">i8"), ("visible_ms", ">i8")])
"""What the job writes for each row."""

_UNDER_WAY_S: Final = 30.0
"""So long a row may be under way that others have overtaken."""


class FlinkPeer:
    """A running job on a cluster of its own."""

    def __init__(
        self, version: str, cluster: FlinkCluster, job: FlinkJob, rows: PeerRows, results: Path
    ) -> None:
        self.system = f"flink {version}"
        self._cluster = cluster
        self._job = job
        self._rows = rows
        self._results = np.memmap(results, dtype=RESULT, mode="r")

    def visible_ms(self) -> NDArray[np.float64]:
        """Return when the count after each row was first written."""
        found = self._results["visible_ms"].astype(np.float64)
        found[found == 0] = NEVER_MS
        return found

    def check(self) -> None:
        """Raise ``FlinkError`` where the job or a process has ended."""
        self._job.check()

    def scale_out(self, *, cold: bool) -> None:
        """Rescale the job; a cold one starts a task manager now, else one has a slot free."""
        if cold:
            self._cluster.add_task_manager()
        self._job.rescale(SIZES[1])

    def scale_in(self) -> None:
        """Rescale the job; the task manager that is left over stays, with a slot free."""
        self._job.rescale(SIZES[0])

    def wrong(self) -> int:
        """Return how many rows up to the last that has a count have a wrong one, or none.

        Every row's count is compared with how often its word has come up to there, and has to be
        the same where a rescale wrote it twice.
        """
        counts = self._results["count"]
        until = int(np.flatnonzero(counts)[-1]) + 1
        deadline = time.monotonic() + _UNDER_WAY_S
        while (counts[:until] == 0).any() and time.monotonic() < deadline:
            time.sleep(0.1)
        expected = running_counts(words_of(self._rows.fixed, until))
        return int((counts[:until] != expected).sum())


@contextmanager
def flink_peer(
    flink: FlinkInstallation,
    rows: PeerRows,
    clock: ReplayClock,
    folder: Path,
    *,
    checkpoint_s: float,
) -> Iterator[FlinkPeer]:
    """Give a job that waits for its first row."""
    java = java_home()
    jar = compiled_job(flink, java, folder)
    results = folder / "results"
    with results.open("wb") as file:
        file.truncate(rows.recording.rows * RESULT.itemsize)
    size, scratch = SIZES[0], folder / "cluster"
    scratch.mkdir()
    with flink_cluster(
        flink, java, scratch, task_managers=size, checkpoint_s=checkpoint_s
    ) as cluster:
        files = (str(rows.fixed), str(clock.path), str(results))
        arguments = (*files, str(BALLAST_BYTES), BALLAST)
        job = cluster.submit(jar, ENTRY, arguments, parallelism=size)
        yield FlinkPeer(flink.version, cluster, job, rows, results)
