"""Lanes: threads that run jobs in order, each with a deadline, and are replaced where one hangs.

A call into a runtime may never come back. Its thread cannot be ended, but it need not hold up the
jobs behind it: past the deadline the lane goes on in a new thread. The loop is informed of that,
and also should the call come back one day.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

_MOST_STUCK: Final = 4
"""A lane with this many threads that do not come back takes no more jobs."""


@dataclass(frozen=True, slots=True)
class Job:
    """Something to be run."""

    what: str
    """For messages."""
    limit_s: float
    """After this it counts as stuck."""
    run: Callable[[], None]
    refused: Callable[[str], None]
    """Called in its place, with the reason, where the lane takes no more."""


class Lane(Protocol):
    """Runs jobs one after the other."""

    def submit(self, job: Job) -> None:
        """Run ``job`` sooner or later."""

    def look(self) -> None:
        """See whether the job under way is stuck."""

    def close(self) -> None:
        """Run what waits, then end."""

    def drain(self, timeout_s: float) -> None:
        """Wait until nothing is left to run, or the time is up."""


class Inline:
    """Runs every job where it is submitted: for tests and simulations."""

    def submit(self, job: Job) -> None:
        """Run ``job`` now."""
        job.run()

    def look(self) -> None:
        """See nothing: a job that is stuck would be noticed."""

    def close(self) -> None:
        """Nothing waits."""

    def drain(self, timeout_s: float) -> None:
        """Nothing waits."""


class _Runner:
    """One thread and the jobs it has to do."""

    def __init__(
        self,
        name: str,
        jobs: deque[Job],
        ended: Callable[[_Runner, Job], None],
        *,
        closing: bool = False,
    ) -> None:
        self.jobs = jobs
        self.job: Job | None = None
        self.since = 0.0
        self.closing = closing
        self.changed = threading.Condition()
        self._ended = ended
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.jobs or self.closing)
                if not self.jobs:
                    return
                self.since, self.job = time.monotonic(), self.jobs.popleft()
            job = self.job
            job.run()
            with self.changed:
                self.job = None
            self._ended(self, job)


class ThreadLane:
    """A lane with a thread of its own, started with the first job.

    ``stuck`` is called with what hangs, for how long, and whether it has come back after all.
    """

    def __init__(self, name: str, stuck: Callable[[str, float, bool], None]) -> None:
        self._name = name
        self._stuck = stuck
        self._lock = threading.Lock()
        self._runner: _Runner | None = None
        self._lost: dict[_Runner, float] = {}
        """Threads that do not come back, and since when."""
        self._closed = False

    def submit(self, job: Job) -> None:
        """Run ``job`` after those that wait; refuse it where too many never came back."""
        with self._lock:
            refused = self._closed or len(self._lost) >= _MOST_STUCK
            if not refused:
                if self._runner is None:
                    self._runner = _Runner(self._name, deque(), self._ended)
                with self._runner.changed:
                    self._runner.jobs.append(job)
                    self._runner.changed.notify_all()
        if refused:
            many = f"{len(self._lost)} calls have not come back"
            job.refused("the loop has ended" if self._closed else many)

    def look(self) -> None:
        """Go on in a new thread where the job under way has passed its deadline."""
        with self._lock:
            runner = self._runner
            job = None if runner is None else runner.job
            if runner is None or job is None:
                return
            passed_s = time.monotonic() - runner.since
            if passed_s <= job.limit_s:
                return
            self._lost[runner] = runner.since
            with runner.changed:
                waiting, runner.jobs, runner.closing = runner.jobs, deque(), True
            self._runner = (
                _Runner(self._name, waiting, self._ended, closing=self._closed) if waiting else None
            )
        self._stuck(job.what, passed_s, False)

    def close(self) -> None:
        """Let the thread end after the jobs that wait; do not wait for them."""
        with self._lock:
            self._closed = True
            if self._runner is not None:
                with self._runner.changed:
                    self._runner.closing = True
                    self._runner.changed.notify_all()

    def drain(self, timeout_s: float) -> None:
        """Wait for a closed lane to end; its own thread does not wait for itself."""
        runner = self._runner
        if runner is not None and runner.thread is not threading.current_thread():
            runner.thread.join(timeout_s)

    def _ended(self, runner: _Runner, job: Job) -> None:
        with self._lock:
            since = self._lost.pop(runner, None)
        if since is not None:
            self._stuck(job.what, time.monotonic() - since, True)
