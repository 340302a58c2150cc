"""One run of one system: filled, warmed, measured, made larger without and with help at hand.

The same steps for both, from outside: rows are opened and started by the clock, and the system is
seen through its results alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from elastream.model.errors import ElastreamError
from elastream_lab.benchmarks.peers.figures import (
    Change,
    ChangeFigures,
    PeerResult,
    Seen,
    figures_of,
    settled_ms,
    steady_latency,
)
from elastream_lab.benchmarks.peers.rows import PeerRows
from elastream_lab.harness.replay import ReplayClock

if TYPE_CHECKING:
    from numpy.typing import NDArray


SIZES: Final = (2, 3)
"""Executors, or task managers, before and after a change."""

_LEAD_PARTS: Final = 8
_BACKLOG_PARTS: Final = 3
"""The last part of the backlog is the throughput that is reported."""
_STEADY_S: Final = 15.0
_REST_S: Final = 10.0
"""Between a change, or the backlog, and the steady seconds before the next change."""
_LOOK_S: Final = 0.2
_STUCK_S: Final = 180.0
"""So long nothing may come of rows that are there."""
_SETTLING_S: Final = 60.0
"""So long after a change it is awaited that the stream is settled."""


class Peer(Protocol):
    """A system that counts the rows, as the trial sees it."""

    @property
    def system(self) -> str:
        """Its name and version."""

    def visible_ms(self) -> NDArray[np.float64]:
        """Return when the result of each row was first there, by position."""

    def check(self) -> None:
        """Raise an error where it has ended by itself."""

    def scale_out(self, *, cold: bool) -> None:
        """Return when it has the larger size.

        ``cold``: whoever joins is started now. Else a process that was there, and has worked
        before, takes part.
        """

    def scale_in(self) -> None:
        """Return when it has the smaller size and whoever left is ready to take part again."""

    def wrong(self) -> int:
        """Return how many results are wrong or missing; the last that is asked of it."""


@dataclass(frozen=True)
class Trial:
    """What is done to a peer."""

    peer: Peer
    rows: PeerRows
    clock: ReplayClock
    say: Callable[[str], None]

    def run(self) -> PeerResult:
        """Do it all."""
        self.say("filling the state")
        self._open_in_parts(0, self.rows.filling, _LEAD_PARTS)
        self.say("warming")
        self._open_in_parts(self.rows.filling, self.rows.lead, _LEAD_PARTS)
        self.say("working off a backlog")
        rows_per_s = self._open_in_parts(self.rows.lead, self.rows.first, _BACKLOG_PARTS)
        self.clock.start(round(time.time() * 1000))
        first, cold = self._scaled_out(cold=True)
        self.say(f"{SIZES[1]} to {SIZES[0]}")
        self.peer.scale_in()
        _, warm = self._scaled_out(cold=False)
        steady = steady_latency(self._seen(), first)
        self.say("checking against a batch count")
        exact = not self.peer.wrong()
        return PeerResult(self.peer.system, exact, rows_per_s, steady, warm, cold)

    def _open_in_parts(self, begin: int, end: int, parts: int) -> float:
        """Open rows part after part; return how many a second the last part was done with."""
        ends = [begin + (end - begin) * part // parts for part in range(parts + 1)]
        seconds = [self._open(until) for until in ends[1:]]
        return (ends[-1] - ends[-2]) / seconds[-1]

    def _open(self, until: int) -> float:
        """Make the first rows available, wait for their results; return how long that took."""
        opened_ms = time.time() * 1000
        self.clock.open(until)
        deadline = time.monotonic() + _STUCK_S
        while (last_ms := float(self.peer.visible_ms()[:until].max())) > time.time() * 1000:
            if time.monotonic() > deadline:
                raise ElastreamError(f"no result of {until:,} rows after {_STUCK_S:g} s")
            self._pause()
        return (last_ms - opened_ms) / 1000

    def _scaled_out(self, *, cold: bool) -> tuple[Change, ChangeFigures]:
        """Make it larger, and watch it until it is settled."""
        self.say("steady")
        self._watch(_REST_S)
        steady_from_ms = time.time() * 1000
        self._watch(_STEADY_S)
        self.say(f"{SIZES[0]} to {SIZES[1]}, {'cold' if cold else 'with help at hand'}")
        asked_ms = time.time() * 1000
        self.peer.scale_out(cold=cold)
        change = Change(steady_from_ms, asked_ms, time.time() * 1000)
        deadline = time.monotonic() + _SETTLING_S
        while settled_ms(self._seen(), change) is None and time.monotonic() < deadline:
            self._pause()
        return change, figures_of(self._seen(), change, until_ms=time.time() * 1000)

    def _watch(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._pause()

    def _pause(self) -> None:
        self.peer.check()
        time.sleep(_LOOK_S)

    def _seen(self) -> Seen:
        """Return what is known of the rows that are due by now."""
        start_ms, recording, first = self.clock.start_ms, self.rows.recording, self.rows.first
        if start_ms is None:
            raise ElastreamError("the stream never began")
        until = recording.rows_due(time.time() * 1000 - start_ms)
        due_ms = start_ms + recording.due_ms[first:until].astype(np.float64)
        return Seen(due_ms, self.peer.visible_ms()[first:until])
