"""Utilisation: as many executors as keep each of them busy for a set share of its time.

The papers take the number of nodes from outside, proportional to the rate of the stream (paper
000, section 6); here it follows from measured work. Let ``W`` be the slots that the stateful tasks
of all queries need, ``O`` those that everything else on the executors needs and ``c`` the slots of
an executor. The utilisation of n executors is ``u(n) = (W + O) / (n c)``; O is taken to spread
evenly over the n, as work without state goes wherever a slot is free.

- W of a query is what its tasks used, scaled by its demand: rows that arrive, and the backlog to
  be worked off within ``catch_up_s``, over rows worked off. A saturated query works off less than
  arrives; without this its need would be underestimated.
- ``keep_triggers``: batches shall not take longer than their trigger. W of a query is divided by
  the share of its trigger that stateful tasks can use, ``1 - overhead / trigger``.

``fits(n, mark)`` holds where ``u(n) <= mark`` and the fullest executor of an even spread is at
most ``(1 + tau) mark`` busy and not above ``target + hysteresis``, and likewise each query whose
stages run one after another: of these the fullest executors of all stages are added up, none less
than the heaviest task. What heaviest tasks alone make busier than that is at most ``1 + tau`` times
as busy as they make it; the others still keep the limit. The plan of a change must keep the busiest
below ``target + hysteresis`` (:class:`~elastream.core.goal.Purpose`).

- scale out where the mean or the busiest executor is above ``target + hysteresis`` and the least n
  that fits ``target`` is above the present number;
- scale in where the least n that fits ``target - hysteresis`` is below the present number, by a
  tenth of it or more: state is not moved to save one executor in a hundred;
- never so few executors that the batches of Real-time queries lack slots, which they take at once;
- rebalance where the busiest executor is above ``target + hysteresis``, and above what an even
  spread over the same executors allows by more than half of ``hysteresis``.

No oscillation: what fits the lower mark fits the target, so the n of a scale-out is never above
that of a scale-in for the same load, and going back takes a change of load of at least
``hysteresis / target``.

With ``latency_ms`` one more executor is wanted while rows of a Real-time query wait longer than
that, and none is given back.

With ``look_ahead_s`` the same rules hold for the most that is expected within that time
(:mod:`elastream.goals.forecast`): all work grows alike, by at most ``1 + MOST_MORE`` times. The
goal then never wants less than for the load of now. Tasks are spread again for that load alone.

Cost: O(q e) for q queries that each are on e executors; an even spread of the m tasks is worked
out, O(m log m), only where bounds on it do not suffice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from elastream.core.application import Observed
from elastream.core.goal import Goal, Marks, Need, Purpose, Question, Wanted, within_bounds
from elastream.core.usage import SLACK, Usage, demand
from elastream.goals.forecast import Expected, Forecaster
from elastream.goals.wall_clock import checked_zone
from elastream.model.checks import Number, non_negative, positive, zero_or_more
from elastream.model.errors import ProblemError
from elastream.model.observation import BatchObservation
from elastream.model.words import pluralize
from elastream.placement.even_spread import attainable_tau as attainable_tau

_LEAST_SAVING = 0.1
"""Share of the executors that a scale-in must save, rounded down to at least one executor."""
FURTHEST_S = 3600.0
"""What must be known further ahead than this belongs in a schedule."""
_STEP, _STEPS = 1.02, 140
"""Loads that are tried for :meth:`Utilisation.turning_points`: up to 16 times as much."""
_STRIDE = 50
"""Numbers of executors are tried one by one up to this, then in steps of a fiftieth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation(Goal):
    """The default goal: executors busy for ``target`` of their time."""

    target: float = 0.7
    """Share of its slots' time that an executor should be busy."""
    hysteresis: float = 0.1
    """Half the width of the band around the target: scale out above target plus this, scale in
    only to where the utilisation stays below target minus this."""
    catch_up_s: float = 120.0
    """In how long a backlog should be worked off, where the source reports it."""
    keep_triggers: bool = False
    """Whether batches should keep their trigger interval; else they may grow with the load."""
    look_ahead_s: float = 0.0
    """Be ready for the load expected within this time, at most an hour; 0: for the load of now. As
    long as it takes from a need to executors that work: patience, their start, and the moves."""
    latency_ms: float | None = None
    """How long rows of a Real-time query may wait between its boundaries; ``None``: for as long as
    they do. Not below what a query needs whose executors are idle."""
    zone: str | None = None
    """Time zone whose days and weeks a forecast learns, such as ``"Europe/Berlin"``; ``None``: the
    system's."""

    def __post_init__(self) -> None:
        target = positive("goal.target", self.target)
        if target > 1:
            raise ProblemError("goal.target", f"{target:g} is above 1")
        band = non_negative("goal.hysteresis", self.hysteresis)
        if not band < target:
            raise ProblemError("goal.hysteresis", f"{band:g} is not below target {target:g}")
        if target + band > 1:
            wrong = f"{band:g} above target {target:g} is more than 1"
            raise ProblemError("goal.hysteresis", wrong)
        positive("goal.catch_up_s", self.catch_up_s)
        if zero_or_more("goal.look_ahead_s", self.look_ahead_s) > FURTHEST_S:
            wrong = f"{self.look_ahead_s:g} is above {FURTHEST_S:g}; see Schedule"
            raise ProblemError("goal.look_ahead_s", wrong)
        if self.latency_ms is not None:
            positive("goal.latency_ms", self.latency_ms)
        checked_zone("goal.zone", self.zone)

    @property
    def name(self) -> str:
        """What the log calls it."""
        ahead = f", {self.look_ahead_s:g} s ahead" if self.look_ahead_s else ""
        return f"utilisation {self.target:g}{ahead}"

    @property
    def marks(self) -> Marks:
        """Between what it keeps the utilisation."""
        return Marks(self.low_mark, self.target, self.high_mark)

    @property
    def high_mark(self) -> float:
        """Utilisation above which the application scales out."""
        return self.target + self.hysteresis

    @property
    def low_mark(self) -> float:
        """Utilisation that a scale-in must not exceed."""
        return self.target - self.hysteresis

    def memory(self) -> Forecaster | None:
        """Remember nothing, or the load so far where it looks ahead."""
        if not self.look_ahead_s:
            return None
        return Forecaster.ahead(self.look_ahead_s, headroom=1 / self.high_mark, zone=self.zone)

    def recalled(self, past: Iterable[tuple[int, float]]) -> Forecaster | None:
        """Remember the load of the past where it looks ahead."""
        memory = self.memory()
        if memory is not None:
            for at_ms, cores in past:
                memory = memory.with_load(at_ms, cores)
        return memory

    def after_batch(
        self,
        memory: Forecaster | None,
        observed: Observed,
        batch: BatchObservation,  # noqa: ARG002
        *,
        disturbed: bool,  # noqa: ARG002
    ) -> Forecaster | None:
        """Remember the load, also while something moves: rows arrive all the same."""
        return _remembered(memory, observed)

    def expected(self, memory: Forecaster | None, observed: Observed) -> Expected | None:
        """Return the most that stateful tasks are expected to need; ``None`` where none is."""
        if memory is None or observed.wall_ms is None:
            return None
        return memory.expected(observed.wall_ms, _arriving(observed))

    def wanted(
        self, memory: Forecaster | None, observed: Observed
    ) -> tuple[Forecaster | None, Wanted, tuple[Question, ...]]:
        """Return what the load calls for; patience and cooldown are the loop's business."""
        if observed.idle:  # no batch will come
            memory = _remembered(memory, observed)
        usage = self._usage(observed)
        figures = _figures(observed, usage)
        bounded = within_bounds(observed)
        if bounded is not None or usage is None:
            unknown = "no stateful task has been measured yet"
            bounded = bounded or Wanted("hold", len(observed.executors), unknown)
            busy = None if usage is None else usage.mean
            figures |= bounded.figures
            return memory, replace(bounded, utilisation=busy, figures=figures), ()
        expected = self.expected(memory, observed)
        ahead = usage if expected is None else self._ahead(usage, observed, expected)
        out = self._least_for(usage, ahead, observed, self.target)
        below = self._least_for(usage, ahead, observed, self.low_mark)
        need, number, reason = self._judged(usage, ahead, observed, out, below)
        figures["needed"] = out
        if expected is not None:
            figures["look_ahead_s"] = self.look_ahead_s
            figures["expected"] = round(expected.load, 4)
            if expected.error is not None:
                figures["expected_error"] = round(expected.error, 4)
            if ahead is not usage:
                within = f"within {self.look_ahead_s:g} s by {expected.expert}"
                reason = f"{reason}; {ahead.mean:.2f} expected {within}"
        if need != "hold":
            figures["wanted"] = number
        purpose = Purpose(self.high_mark, ahead.scales, ahead.outside, ahead.slots)
        return memory, Wanted(need, number, reason, usage.mean, figures, purpose=purpose), ()

    def near_scale_out(self, memory: Forecaster | None, observed: Observed) -> bool:
        """Return whether an executor is above the target, now or as is expected."""
        usage = self._usage(observed)
        if usage is None:
            return True
        expected = self.expected(memory, observed)
        ahead = usage if expected is None else self._ahead(usage, observed, expected)
        late = self._late(observed) is not None
        return late or usage.above(self.target) or ahead.above(self.target)

    def turning_points(
        self,
        memory: Forecaster | None,  # noqa: ARG002
        observed: Observed,
    ) -> tuple[str, ...]:
        """Return by how much all load must grow or fall for another number of executors."""
        usage = self._usage(observed)
        if usage is None or within_bounds(observed) is not None or self._late(observed):
            return ()
        said = []
        for step, does in ((_STEP, "grows"), (1 / _STEP, "falls")):
            factor = 1.0
            for _ in range(_STEPS):
                factor *= step
                grown = self._usage_at(observed, factor)
                out = self._least_fitting(grown, observed, self.target)
                below = self._least_fitting(grown, observed, self.low_mark)
                need, number, _ = self._judged(grown, grown, observed, out, below)
                if need in ("scale-out", "scale-in"):
                    by = f"{abs(factor - 1):.0%}"
                    said.append(f"If all load {does} by about {by} it wants a {need} to {number}")
                    break
            else:
                said.append(f"However much the load {does} it wants no other number of executors")
        return tuple(said)

    def utilisation(self, observed: Observed) -> float | None:
        """Return how busy the executors would be if they did all that is asked for."""
        usage = self._usage(observed)
        return None if usage is None else usage.mean

    def _usage(self, observed: Observed) -> Usage | None:
        measured = any(query.load.measured for query in observed.queries.values())
        if not measured or not observed.executors:
            return None
        return self._usage_at(observed)

    def _usage_at(self, observed: Observed, grown: float = 1.0) -> Usage:
        """Return the usage where all that is asked for grows by a factor."""
        return Usage(
            observed, catch_up_s=self.catch_up_s, keep_triggers=self.keep_triggers, grown=grown
        )

    def _ahead(self, usage: Usage, observed: Observed, expected: Expected) -> Usage:
        """Return the usage when the load is what is expected; the same where that is no more."""
        now = _arriving(observed)
        grown = expected.load / now if now > 0 else 1.0
        return self._usage_at(observed, grown) if grown > 1 else usage

    def _least_for(self, usage: Usage, ahead: Usage, observed: Observed, mark: float) -> int:
        """Return the least n that fits ``mark`` both now and then."""
        number = self._least_fitting(usage, observed, mark)
        if ahead is usage:
            return number
        return max(number, self._least_fitting(ahead, observed, mark))

    def _judged(
        self, usage: Usage, ahead: Usage, observed: Observed, out: int, below: int
    ) -> tuple[Need, int, str]:
        alive, bounds, high = len(observed.executors), observed.bounds, self.high_mark
        busy = f"utilisation {usage.mean:.2f}, busiest executor {usage.busiest:.2f}{usage.limits}"
        pressed = usage.above(high)
        if not pressed and ahead.above(high) and min(out, bounds.most) > alive:
            return "scale-out", min(out, bounds.most), f"{busy}: too little soon; {out} are needed"
        if pressed and min(out, bounds.most) > alive:
            more = usage.demand
            why = "" if more < 1.05 else f", {more:.2f} times what is worked off"
            reason = f"{busy}: above {high:.2f}{why}; {out} are needed"
            return "scale-out", min(out, bounds.most), reason
        late = self._late(observed)
        more = min(alive + 1, usage.count, bounds.most)
        if late is not None and more > alive:
            return "scale-out", more, f"{busy}: {late}"
        number = max(below, bounds.least, 1)
        if late is None and number <= alive - max(1, int(_LEAST_SAVING * alive)):
            stays = f"{pluralize(number, 'executor')} would be {ahead.total / number:.2f} busy"
            return "scale-in", number, f"{busy}: {stays}, below {self.low_mark:.2f}"
        if not pressed:
            return "hold", alive, f"{busy}: {self._contentment(usage, observed)}"
        share = usage.outside / alive
        better = [
            (now - even, even + share)
            for part, now in enumerate(usage.each)
            if now > high
            and now > (even := usage.even(part, alive, observed)) + share + self.hysteresis / 2
        ]
        if better:
            return "rebalance", alive, f"{busy}: an even spread allows {max(better)[1]:.2f}"
        if out > alive:
            most = bounds.most
            return "hold", alive, f"{busy}: {out} executors are needed, the maximum is {most}"
        heaviest = f"the heaviest task alone makes {usage.heaviest:.2f}"
        if max(usage.alone) > usage.heaviest * (1 + SLACK):
            heaviest = f"the heaviest tasks of the stages alone make {max(usage.alone):.2f}"
        return "hold", alive, f"{busy}: no spread is better, {heaviest}"

    def _late(self, observed: Observed) -> str | None:
        """Return which query's rows wait too long, and how long; ``None`` where none do."""
        waits_ms = [
            (query.load.latency_ms, query.name)
            for query in observed.queries.values()
            if query.realtime and query.load.latency_ms is not None
        ]
        if self.latency_ms is None or not waits_ms or max(waits_ms)[0] <= self.latency_ms:
            return None
        longest_ms, name = max(waits_ms)
        return f"rows of {name} wait {longest_ms:.0f} ms, above {self.latency_ms:g} ms"

    def _contentment(self, usage: Usage, observed: Observed) -> str:
        alive = len(observed.executors)
        if usage.mean >= self.low_mark:
            return f"within {self.low_mark:.2f} to {self.high_mark:.2f}"
        if alive <= max(1, observed.bounds.least):
            return f"low, and {pluralize(alive, 'executor')} the minimum"
        if alive <= _least_for_slots(observed):
            at_once = pluralize(observed.slots_at_once, "slot")
            return f"low, and Real-time batches take {at_once} at once"
        fewer = alive - max(1, int(_LEAST_SAVING * alive))
        return f"low, and too much for {pluralize(fewer, 'executor')}"

    def _least_fitting(self, usage: Usage, observed: Observed, mark: float) -> int:
        """Return the least n that fits ``mark``; the tasks, one a node, always do."""
        bounds = observed.bounds
        seated = _least_for_slots(observed)
        alone = max(seated, usage.count + math.ceil(usage.outside / mark * (1 - SLACK)))
        number = max(seated, 1, min(alone, math.ceil(usage.total / mark * (1 - SLACK))))
        while number < min(alone, bounds.most):
            share = usage.outside / number
            mostly = min((1 + bounds.tau) * mark, self.high_mark)
            most = [
                (mostly if alone + share <= mostly else (1 + bounds.tau) * (alone + share))
                * (1 + SLACK)
                - share
                for alone in usage.alone
            ]
            if usage.fits(number, observed, most):
                break
            number += max(1, number // _STRIDE)
        return number


def _least_for_slots(observed: Observed) -> int:
    """Return how many executors have the slots that Real-time batches take all at once."""
    if not (at_once := observed.slots_at_once):
        return 0
    return math.ceil(at_once / min(executor.slots for executor in observed.executors))


def _arriving(observed: Observed) -> float:
    """Return the cores that stateful tasks need to keep up, whatever waits already."""
    queries = observed.queries.values()
    return sum(query.load.work * demand(query, math.inf) for query in queries)


def _remembered(memory: Forecaster | None, observed: Observed) -> Forecaster | None:
    measured = any(query.load.measured for query in observed.queries.values())
    if memory is None or observed.wall_ms is None or not measured:
        return memory
    return memory.with_load(observed.wall_ms, _arriving(observed))


def _figures(observed: Observed, usage: Usage | None) -> dict[str, Number]:
    figures: dict[str, Number] = {}
    loads = [query.load for query in observed.queries.values()]
    if usage is not None:
        figures["busiest"] = round(usage.busiest, 4)
        figures["cores_needed"] = round(usage.cores_needed, 4)
        figures["demand"] = round(usage.demand, 4)
        figures["outside"] = round(usage.outside, 4)
    rates = [load.rows_per_s for load in loads if load.rows_per_s is not None]
    if rates:
        figures["rows_per_s"] = round(sum(rates), 1)
    backlogs = [load.backlog for load in loads if load.backlog is not None]
    if backlogs:
        figures["backlog"] = sum(backlogs)
    figures["state_bytes"] = round(sum(load.state_bytes for load in loads))
    return figures
