"""Settling: queries work off what the start of new executors held up, before state moves.

An executor that starts takes CPU and network from those that work; rows pile up, and a batch that
works them off is long enough without a move in it. An overloaded query does not recover before it
gets its executors, so it is not waited for; nor is one that is idle, late or gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from elastream.core.change import Change
from elastream.core.events import BatchObserved, Event, Status, Tick
from elastream.core.next import Begin
from elastream.core.state import LoopState, Phase, Turn, note

_USUAL: Final = 1.2
"""A batch is as usual if it takes at most this many times as long as the usual one."""
_FALLING: Final = 0.97
"""Batches get shorter if each takes at most this share of the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling(Phase):
    """New executors are there; some queries still work off what their start held up."""

    change: Change
    last_ms: Mapping[str, float]
    """Of each query that is waited for, how long its last batch took."""
    left: Mapping[str, int]
    """How many batches of it may still pass."""

    def on(self, state: LoopState, event: Event) -> Turn:
        """Go on when no query is waited for any more."""
        match event:
            case BatchObserved(batch=batch) if batch.query in self.last_ms:
                return self._judge(state, batch.query, batch.duration_ms)
            case BatchObserved(batch=batch):
                waited = f"{self.change.kind}: {len(self.last_ms)} other queries settle"
                log = note(state, "wait", waited, query=batch.query)
                state, instructions, following = self._waited_for(state, self.last_ms, self.left)
                return state, (log, *instructions), following
            case Tick() | Status() if self.is_overdue(state):
                return state, (), Begin("planning", self.change)
            case _:
                return self._waited_for(state, self.last_ms, self.left)

    def _judge(self, state: LoopState, query: str, took_ms: float) -> Turn:
        usual_ms = self.change.usual_ms[query]
        last_ms, left = dict(self.last_ms), dict(self.left)
        rests = took_ms <= _USUAL * usual_ms or took_ms > _FALLING * last_ms[query]
        if rests or left[query] == 0:
            del last_ms[query], left[query]
        else:
            last_ms[query], left[query] = took_ms, left[query] - 1
        log = note(
            state,
            "wait",
            f"{self.change.kind}: batches take {took_ms / usual_ms:.1f} times as long as before"
            + (f"; up to {left[query] + 1} more to settle" if query in left else ""),
            query=query,
        )
        state, instructions, following = self._waited_for(state, last_ms, left)
        return state, (log, *instructions), following

    def _waited_for(
        self, state: LoopState, last_ms: Mapping[str, float], left: Mapping[str, int]
    ) -> Turn:
        """Wait for those of these queries that still run, or go on."""
        running = state.running
        last_ms = {query: ms for query, ms in last_ms.items() if query in running}
        if not last_ms:
            return state, (), Begin("planning", self.change)
        left = {query: left[query] for query in last_ms}
        return replace(state, phase=replace(self, last_ms=last_ms, left=left)), (), None


def begin_settling(state: LoopState, change: Change) -> Turn:
    """Wait for queries whose batches take longer than before the change, or go on."""
    most, running = state.policy.movement.settle_batches, state.running
    last_ms = {
        query.name: query.load.batch_ms
        for query in state.queries.values()
        if query.name in running
        and query.name in change.usual_ms
        and query.load.batch_ms is not None
        and query.load.batch_ms > _USUAL * change.usual_ms[query.name]
    }
    if not last_ms or not most:
        return state, (), Begin("planning", change)
    left = dict.fromkeys(last_ms, most - 1)
    settling = Settling(change=change, since_ms=state.now_ms, last_ms=last_ms, left=left)
    slowest = max(last_ms, key=lambda query: last_ms[query] / change.usual_ms[query])
    ratio = last_ms[slowest] / change.usual_ms[slowest]
    log = note(
        state,
        "wait",
        f"{change.kind}: batches take {ratio:.1f} times as long as before; up to {most} more to "
        "settle",
        query=slowest,
    )
    return replace(state, phase=settling), (log,), None
