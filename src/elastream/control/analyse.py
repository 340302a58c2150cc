"""Analyse: from smoothed load to what should change, with the reason and the figures.

The papers take the number of nodes from outside, proportional to the rate of the stream (paper
000, section 6); here it follows from measured work. Let ``W`` be the cores that the stateful tasks
need, ``c`` the cores of an executor and ``s`` the share of stream time it can use. The utilisation
of n executors is ``u(n) = W / (n c s)``.

- ``W`` is what the tasks used, scaled by the demand: rows that arrive, and the backlog to be
  worked off within ``catch_up_s``, over rows worked off. A saturated query works off less than
  arrives; without this its need would be underestimated.
- ``s`` is 1 where batches may grow with the load. With a trigger interval to keep, the time that a
  batch spends outside its stateful tasks is lost to every trigger: ``s = 1 - outside / trigger``.

``fits(n, mark)`` holds where ``u(n) <= mark`` and the fullest executor of an even spread is at
most ``(1 + tau) mark`` busy, or no busier than the heaviest task makes it anywhere.

- scale out where the mean or the busiest executor is above ``target + hysteresis`` and the least n
  that fits ``target`` is above the present number;
- scale in where the least n that fits ``target - hysteresis`` is below the present number, by a
  tenth of it or more: state is not moved to save one executor in a hundred;
- rebalance where the busiest executor is above ``target + hysteresis``, and above what an even
  spread over the same executors allows by more than ``hysteresis``.

No oscillation: what fits the lower mark fits the target, so the n of a scale-out is never above
that of a scale-in for the same load, and going back takes a change of load of at least
``hysteresis / target``. Cost: O(m log m) for each n probed, and n starts at its lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from elastream.control.balance import even_max_load
from elastream.control.observation import Executor
from elastream.control.policy import Policy
from elastream.control.smoothing import SmoothedLoad
from elastream.model.checks import Number

__all__ = ["Assessment", "Need", "analyse", "attainable_tau", "demand", "utilisation"]

Need = Literal["hold", "scale-out", "scale-in", "rebalance"]

_LEAST_USABLE = 0.2
"""A trigger shorter than the time outside the tasks cannot be kept by adding executors: the
usable share is not taken below this, so that such a query does not ask for the moon."""
_LEAST_SAVING = 0.1
"""Share of the executors that a scale-in must save, rounded down to at least one executor."""
_SLACK = 1e-9
"""Relative slack of comparisons, so that rounding alone changes nothing."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What one look at the load says."""

    need: Need
    executors: int
    """How many executors there should be."""
    reason: str
    """One sentence."""
    utilisation: float | None
    """Mean over the executors; ``None`` while no rate is known."""
    figures: Mapping[str, Number]
    """The numbers behind the reason; ``wanted`` executors only where something should change."""


@dataclass(frozen=True, slots=True)
class _Usage:
    """The load in the unit of the marks: 1 is an executor busy all of the time it can use."""

    tasks: tuple[float, ...]
    """Of each task, in task order."""
    held: tuple[float, ...]
    """Of each executor that is alive."""
    demand: float
    """Work asked for over work done."""

    @property
    def total(self) -> float:
        return sum(self.tasks)

    @property
    def mean(self) -> float:
        return self.total / len(self.held)

    @property
    def busiest(self) -> float:
        return max(self.held)


def analyse(load: SmoothedLoad, executors: tuple[Executor, ...], policy: Policy) -> Assessment:
    """Return what the query needs now; patience and cooldown are the step's business."""
    alive = len(executors)
    if not alive:
        return Assessment("hold", 0, "no executor is alive", None, {})
    usage = _usage(load, executors, policy)
    figures = _figures(load, usage)
    need: Need
    if alive < policy.min_executors:
        need, number = "scale-out", policy.min_executors
        reason = f"{_executors(alive)} alive, below the minimum of {number}"
    elif alive > policy.max_executors:
        need, number = "scale-in", policy.max_executors
        reason = f"{_executors(alive)} alive, above the maximum of {number}"
    elif usage is None:
        need, number, reason = "hold", alive, "no stateful task has been measured yet"
    else:
        out = _least_fitting(usage, policy, policy.target_utilisation)
        below = _least_fitting(usage, policy, policy.low_mark)
        figures["needed"] = out
        need, number, reason = _judged(usage, alive, policy, out, below)
    if need != "hold":
        figures["wanted"] = number
    return Assessment(need, number, reason, None if usage is None else usage.mean, figures)


def utilisation(
    load: SmoothedLoad, executors: tuple[Executor, ...], policy: Policy
) -> float | None:
    """Return the mean utilisation of the executors; ``None`` while no rate is known."""
    usage = _usage(load, executors, policy) if executors else None
    return None if usage is None else usage.mean


def attainable_tau(work: tuple[float, ...], nodes: int, policy: Policy) -> float:
    """Return the policy's tau, or the least known one at which the tasks can be spread."""
    total = sum(work)
    if total <= 0:
        return policy.tau
    fullest = even_max_load(work, nodes, contiguous=policy.contiguous)
    return max(policy.tau, fullest * nodes / total - 1)


def _judged(
    usage: _Usage, alive: int, policy: Policy, out: int, below: int
) -> tuple[Need, int, str]:
    least, most, high = policy.min_executors, policy.max_executors, policy.high_mark
    busy = f"utilisation {usage.mean:.2f}, busiest executor {usage.busiest:.2f}"
    pressed = max(usage.mean, usage.busiest) > high * (1 + _SLACK)
    if pressed and min(out, most) > alive:
        why = "" if usage.demand < 1.05 else f", {usage.demand:.2f} times what is worked off"
        return "scale-out", min(out, most), f"{busy}: above {high:.2f}{why}; {out} are needed"
    number = max(below, least)
    if number <= alive - max(1, int(_LEAST_SAVING * alive)):
        stays = f"{_executors(number)} would be {usage.total / number:.2f} busy"
        return "scale-in", number, f"{busy}: {stays}, below {policy.low_mark:.2f}"
    if not pressed:
        return "hold", alive, f"{busy}: {_contentment(usage, alive, policy)}"
    even = usage.mean * (1 + attainable_tau(usage.tasks, alive, policy))
    if usage.busiest > even + policy.hysteresis:
        return "rebalance", alive, f"{busy}: an even spread allows {even:.2f}"
    if out > alive:
        return "hold", alive, f"{busy}: {out} executors are needed, the maximum is {most}"
    heaviest = max(usage.tasks)
    return (
        "hold",
        alive,
        f"{busy}: no spread is better, the heaviest task alone makes {heaviest:.2f}",
    )


def _contentment(usage: _Usage, alive: int, policy: Policy) -> str:
    if usage.mean >= policy.low_mark:
        return f"within {policy.low_mark:.2f} to {policy.high_mark:.2f}"
    if alive == policy.min_executors:
        return f"low, and {_executors(alive)} the minimum"
    fewer = alive - max(1, int(_LEAST_SAVING * alive))
    return f"low, and too much for {_executors(fewer)}"


def _least_fitting(usage: _Usage, policy: Policy, mark: float) -> int:
    """Return the least n that fits ``mark``; the tasks, one a node, always do."""
    contiguous = policy.contiguous
    tasks = usage.tasks
    fullest = max((1 + policy.tau) * mark, max(tasks)) * (1 + _SLACK)
    number = max(1, min(len(tasks), math.ceil(usage.total / mark * (1 - _SLACK))))
    while number < min(len(tasks), policy.max_executors):
        if even_max_load(tasks, number, contiguous=contiguous) <= fullest:
            break
        number += 1
    return number


def _usage(load: SmoothedLoad, executors: tuple[Executor, ...], policy: Policy) -> _Usage | None:
    if not any(task.measured for task in load.tasks.values()):
        return None
    wanted = demand(load, policy.catch_up_s)
    usable = _usable_share(load, policy)
    cores = sum(executor.cores for executor in executors) / len(executors)
    scale = wanted / (cores * usable)
    held = dict.fromkeys((executor.id for executor in executors), 0.0)
    for task in load.tasks.values():
        if task.executor in held:
            held[task.executor] += task.work * scale
    return _Usage(
        tuple(task.work * scale for task in load.tasks.values()), tuple(held.values()), wanted
    )


def demand(load: SmoothedLoad, catch_up_s: float) -> float:
    """Return the work asked for over the work done, with a backlog worked off in ``catch_up_s``."""
    if not load.rows_per_s or load.arrivals_per_s is None or load.backlog is None:
        return 1.0
    waiting_anyway = load.arrivals_per_s * (load.interval_ms or 0.0) / 1000
    late = max(0.0, load.backlog - waiting_anyway)
    return max(1.0, (load.arrivals_per_s + late / catch_up_s) / load.rows_per_s)


def _usable_share(load: SmoothedLoad, policy: Policy) -> float:
    if policy.trigger_s is None or load.outside_ms is None:
        return 1.0
    return max(_LEAST_USABLE, 1 - load.outside_ms / 1000 / policy.trigger_s)


def _figures(load: SmoothedLoad, usage: _Usage | None) -> dict[str, Number]:
    figures: dict[str, Number] = {}
    if usage is not None:
        figures["busiest"] = round(usage.busiest, 4)
        figures["cores_needed"] = round(sum(t.work for t in load.tasks.values()) * usage.demand, 4)
        figures["demand"] = round(usage.demand, 4)
    if load.rows_per_s is not None:
        figures["rows_per_s"] = round(load.rows_per_s, 1)
    if load.backlog is not None:
        figures["backlog"] = load.backlog
    if load.batch_ms is not None:
        figures["batch_ms"] = round(load.batch_ms)
    if load.interval_ms is not None:
        figures["interval_ms"] = round(load.interval_ms)
    figures["state_bytes"] = round(sum(task.state_bytes for task in load.tasks.values()))
    return figures


def _executors(number: int) -> str:
    return "1 executor" if number == 1 else f"{number} executors"
