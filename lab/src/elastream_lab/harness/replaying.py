"""A replay on its way: rows opened to make it warm, clocks started, batches watched and awaited.

All of it goes by files, the clocks and the checkpoints of the feeds: the queries may run in this
process or in another one. ``check`` is asked again and again and raises an error when they have
ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from elastream.model.errors import SparkError
from elastream_lab.harness.commit_log import CommittedBatch, committed_batches
from elastream_lab.harness.job import Feed
from elastream_lab.harness.response_time import Responses, responses

_LOOK_S: Final = 0.3
_STUCK_S: Final = 120.0
"""How long there may be rows to read without any batch; a slow machine is no fault."""


class Replay:
    """The replay of some feeds, and what their checkpoints tell of it."""

    def __init__(
        self, feeds: Sequence[Feed], check: Callable[[], None], *, stuck_s: float = _STUCK_S
    ) -> None:
        self.feeds = tuple(feeds)
        self.start_ms: int | None = None
        """When the first row was due, in milliseconds since the epoch; ``None`` before."""
        self.lead: tuple[int, ...] = (0,) * len(self.feeds)
        """Rows of each feed that were opened before that, to make the queries warm."""
        self.batches: tuple[list[CommittedBatch], ...] = tuple([] for _ in self.feeds)
        """The batches committed so far, of each feed."""
        self._check, self._stuck_s = check, stuck_s
        self.look()

    @property
    def rows(self) -> int:
        """How many rows there are, in all feeds."""
        return sum(feed.recording.rows for feed in self.feeds)

    @property
    def rows_done(self) -> int:
        """How many of them are in committed batches."""
        return sum(self._done())

    @property
    def has_read_all(self) -> bool:
        """Whether all of them are."""
        return self.rows_done == self.rows

    def look(self) -> None:
        """Take in the batches committed since the last look."""
        for feed, batches in zip(self.feeds, self.batches, strict=True):
            last = batches[-1].batch if batches else -1
            batches.extend(committed_batches(feed.checkpoint, after=last))

    def lead_in(
        self,
        rows: Sequence[int],
        *,
        batches: int,
        show: Callable[[], None] | None = None,
    ) -> None:
        """Feed the queries their first rows in small batches: the first ones of a JVM take long."""
        begin = self._done()
        for batch in range(1, batches + 1):
            self.open(
                [at + (end - at) * batch // batches for at, end in zip(begin, rows, strict=True)]
            )
            if show is not None:
                show()
            self.wait(self._has_read_lead)

    def open(self, rows: Sequence[int]) -> None:
        """Make the first rows of each feed available, whatever time they are due."""
        self.lead = tuple(rows)
        for feed, opened in zip(self.feeds, rows, strict=True):
            feed.clock.open(opened)

    @contextmanager
    def fed(self, rows: Sequence[int], *, every_s: float, steps: int = 40) -> Iterator[None]:
        """Keep the queries busy: open rows up to ``rows`` by and by, and the rest in the end.

        Batches run meanwhile, and show where state is. The next rows come when those before are
        read: on a slow machine there are as many batches as on a quick one.
        """
        begin, done = self.lead, threading.Event()

        def feed() -> None:
            for step in range(1, steps):
                while not self._has_read_lead():
                    if done.wait(every_s):
                        return
                    self.look()
                self.open(
                    [at + (end - at) * step // steps for at, end in zip(begin, rows, strict=True)]
                )

        feeder = threading.Thread(target=feed, name="elastream-feeder", daemon=True)
        feeder.start()
        try:
            yield
        finally:
            done.set()
            feeder.join()
        self.open(rows)
        self.wait(self._has_read_lead)

    def begin(self, *, lead_s: float = 0.0) -> int:
        """Start the clocks, all at once; rows due in the first ``lead_s`` are due already.

        Returns when the first row of all is due, in milliseconds since the epoch.
        """
        self.start_ms = round((time.time() - lead_s) * 1000)
        for feed in self.feeds:
            feed.clock.start(self.start_ms)
        return self.start_ms

    def wait(self, reached: Callable[[], bool], *, each: Callable[[], None] | None = None) -> None:
        """Look until it is reached; ``each`` is called after every look.

        Raises ``SparkError`` where the queries have ended, or have rows to read and do not.
        """
        last, moved_s = -1, time.monotonic()
        while True:
            self._check()
            self.look()
            if each is not None:
                each()
            if reached():
                return
            now_s, batches = time.monotonic(), sum(map(len, self.batches))
            if batches != last or not self._is_behind():
                last, moved_s = batches, now_s
            elif now_s - moved_s > self._stuck_s:
                raise SparkError(f"there are rows to read, and no batch for {self._stuck_s:g} s")
            time.sleep(_LOOK_S)

    def wait_for_batches(self, number: int) -> None:
        """Look until this many batches of each feed have begun and ended from now on."""
        since_ms = time.time() * 1000

        def enough() -> bool:
            return all(
                sum(batch.began_ms > since_ms for batch in batches) >= number
                for batches in self.batches
            )

        self.wait(enough)

    def responses(self) -> Responses:
        """Return the response time of every row after those that were opened to make it warm."""
        if self.start_ms is None:
            raise SparkError("the replay has not begun")
        of = [
            responses(feed.clock.due_ms(feed.recording), self.start_ms, batches, first=first)
            for feed, batches, first in zip(self.feeds, self.batches, self.lead, strict=True)
        ]
        return Responses(
            np.concatenate([each.due_ms for each in of]),
            np.concatenate([each.response_ms for each in of]),
        )

    def _done(self) -> list[int]:
        return [batches[-1].end if batches else 0 for batches in self.batches]

    def _has_read_lead(self) -> bool:
        return all(done >= lead for done, lead in zip(self._done(), self.lead, strict=True))

    def _is_behind(self) -> bool:
        now_ms = time.time() * 1000
        return any(
            feed.clock.rows_available(feed.recording, now_ms) > done
            for feed, done in zip(self.feeds, self._done(), strict=True)
        )
