"""More partitions: shortages are logged, and where the policy allows it the loop pauses for them.

A shortage (:mod:`elastream.core.partitions`) is logged once it has lasted for ``patience`` batches,
and again only when it is another one. With ``Policy(repartition=True)`` the loop then stops the
query at a batch boundary, at most once an hour, has it repartitioned and started again, and logs
what that cost: from the request to stop until the end of its first batch after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from elastream.core.events import (
    Answered,
    BatchObserved,
    Cancel,
    Event,
    Instruction,
    Repartition,
    Status,
    Tick,
)
from elastream.core.goal import Failure
from elastream.core.migrator.ending import note_waiting
from elastream.core.next import Rest
from elastream.core.partitions import (
    DEFAULT_MARKS,
    Repartitioning,
    Shortage,
    ShortageWatch,
    find_shortage,
    resumed_places,
)
from elastream.core.ports import Paused, Stopped
from elastream.core.state import LoopState, Phase, Transition, Turn, note
from elastream.model.checks import Number
from elastream.model.observation import BatchObservation

_EVERY_S: Final = 3600.0
LONGEST_PAUSE_S: Final = 3600.0
"""After this the loop goes on; what was begun is brought to its end without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pausing(Phase):
    """A query is stopped, repartitioned and started again."""

    shortage: Shortage
    share: float
    """Part of the query's work that its heaviest task has."""
    ticket: int
    run: str
    """The run of the query that is stopped."""
    first_ms: int | None = None
    """When the first batch of the next run ended, where that was before the answer."""

    @property
    def paused(self) -> str:
        """The query that is repartitioned."""
        return self.shortage.query

    def on(self, state: LoopState, event: Event) -> Turn:
        """Come to rest when the query runs again, or was not stopped."""
        match event:
            case Answered(ticket=self.ticket, result=Paused() as paused):
                return self._resumed(state, paused)
            case Answered(ticket=self.ticket, result=Stopped(why=why)):
                return self._given_up(state, why)
            case Answered(ticket=self.ticket, result=result):
                why = result.why if isinstance(result, Failure) else "no answer came"
                return self._given_up(state, f"not repartitioned: {why}")
            case BatchObserved(batch=batch) if self._is_first(batch):
                seen = replace(self, first_ms=batch.finished_at_ms)
                return replace(state, phase=seen), (), None
            case BatchObserved(batch=batch):
                what = f"the repartitioning of {self.shortage.query}"
                return note_waiting(state, what, batch.query)
            case Tick() | Status() if self.waited_s(state) > LONGEST_PAUSE_S:
                passed_s = self.waited_s(state)
                why = f"not repartitioned: it has taken {passed_s:.0f} s already"
                state, log, rest = self._given_up(state, why)
                return state, (Cancel(self.ticket), *log), rest
            case _:
                return state, (), None

    def _is_first(self, batch: BatchObservation) -> bool:
        resumed = batch.query == self.shortage.query and batch.run != self.run
        return resumed and self.first_ms is None

    def _resumed(self, state: LoopState, paused: Paused) -> Turn:
        shortage = self.shortage
        done = Repartitioning(
            before=shortage.partitions,
            partitions=shortage.enough or shortage.partitions,
            share=self.share,
            began_ms=paused.began_ms,
            spent_s=paused.spent_s,
        )
        name = shortage.query
        state = replace(
            state,
            changed_ms=state.now_ms,
            repartitionings={**state.repartitionings, name: done},
            shortages={**state.shortages, name: ShortageWatch()},
        )
        figures: dict[str, Number] = {"partitions": done.partitions, "before": done.before}
        figures |= {f"{what}_s": round(spent, 2) for what, spent in done.spent_s.items()}
        why = f"it has {done.partitions} partitions now, {done.before} before, and runs again"
        log = note(state, "repartition", why, query=name, figures=figures)
        if self.first_ms is None:
            return state, (log,), Rest()
        state, cost = _with_cost(state, name, self.first_ms)
        return state, (log, *cost), Rest()

    def _given_up(self, state: LoopState, why: str) -> Turn:
        log = note(state, "repartition", why, query=self.shortage.query, figures={"failed": 1})
        return replace(state, changed_ms=state.now_ms), (log,), Rest()


def update_partitions(state: LoopState, query: str, *, rested: bool) -> Transition:
    """Look at a query's partitions after a batch of it; log what is new, and act where allowed.

    ``rested``: whether nothing was under way in that batch.
    """
    if state.phase.paused is not None or query not in state.queries:
        return state, ()
    if state.queries[query].realtime:  # not tried: a pause would wait for the end of a batch
        return state, ()
    state, cost = _with_cost(state, query, state.now_ms)
    if not rested or not state.phase.resting:
        return state, cost
    state, shortage = _watched(state, query)
    state, begun = _begun(state, query)
    return state, (*cost, *shortage, *begun)


def _with_cost(state: LoopState, query: str, first_ms: int | None) -> Transition:
    """Log what a pause cost, once, when the first batch after it has ended."""
    last = state.repartitionings.get(query)
    if last is None or last.paused_s is not None or first_ms is None:
        return state, ()
    paused_s = max(0.0, (first_ms - last.began_ms) / 1000)
    last = replace(last, paused_s=paused_s)
    state = replace(state, repartitionings={**state.repartitionings, query: last})
    figures: dict[str, Number] = {"paused_s": round(paused_s, 2), "partitions": last.partitions}
    why = f"the pause for {last.partitions} partitions cost {paused_s:.1f} s, first batch included"
    return state, (note(state, "repartition", why, query=query, figures=figures),)


def _watched(state: LoopState, name: str) -> Transition:
    query = state.queries[name]
    marks = state.policy.goal.marks
    target, mark = DEFAULT_MARKS if marks is None else (marks.target, marks.high)
    seen = find_shortage(
        state.observed, query, target=target, mark=mark, last=state.repartitionings.get(name)
    )
    watch = state.shortages.get(name, ShortageWatch()).saw(seen)
    log: tuple[Instruction, ...] = ()
    if watch.rounds >= state.policy.patience:
        if seen is not None and seen.differs(watch.said):
            log = (note(state, "partitions", seen.reason, query=name, figures=seen.figures),)
            watch = replace(watch, said=seen)
        elif seen is None and watch.said is not None:
            why = f"its {watch.said.partitions} partitions suffice again"
            log = (note(state, "partitions", why, query=name),)
            watch = replace(watch, said=None)
    kept = {each: held for each, held in state.shortages.items() if each in state.queries}
    return replace(state, shortages={**kept, name: watch}), log


def _begun(state: LoopState, name: str) -> Transition:
    """Begin a pause where one is wanted and allowed; cooldown and a request come first."""
    policy, shortage = state.policy, state.shortages[name].said
    if not policy.repartition or policy.advise_only or shortage is None or shortage.enough is None:
        return state, ()
    if state.pause is not None:
        return state, ()
    cooling = state.is_recent(state.changed_ms, policy.cooldown_s)
    if cooling or state.is_recent(state.paused_ms, _EVERY_S) or state.request is not None:
        return state, ()
    state, ticket = state.ticketed()
    query = state.queries[name]
    load = query.load
    share = load.heaviest / load.work if load.work > 0 else 0.0
    pausing = Pausing(
        shortage=shortage, share=share, ticket=ticket, run=query.run, since_ms=state.now_ms
    )
    state = replace(state, phase=pausing, paused_ms=state.now_ms)
    why = f"paused for {shortage.enough} partitions: {shortage.reason}"
    log = note(state, "repartition", why, query=name, figures=shortage.figures)
    places = resumed_places(state.observed, query, shortage.enough)
    return state, (log, Repartition(ticket, name, shortage.enough, places))
