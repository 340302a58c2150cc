"""What the load costs a planner that knows it: the least executor-seconds, in a model. Pure.

- Rows become due as the load says; a row costs its words, ``service_us`` each, and nothing else
  costs anything. Work is spread evenly over executors of a slot each.
- The rows of a trigger are the batch of the next, which ends within that one. What the most
  executors cannot do in time waits for the trigger after it.
- An executor comes and goes at any moment, works for whole triggers, and is there ``START_S``
  before it works: cold, and paid for. Those that are there when the load begins are ready.
- There are never fewer executors than the fewest, until the last trigger ends.

With ``need(k)`` executors in trigger k, executor number i must work in the triggers with
``need(k) >= i``. Numbers do not depend on each other: executor i is there for the union of those
triggers, each begun ``START_S`` earlier, so that it stays where to go and come again would not take
less. The sum is the least there is; O(rows + triggers * executors).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from elastream_lab.benchmarks.elasticity.figures import (
    ExecutorLife,
    changes,
    executor_seconds,
    number_alive,
)
from elastream_lab.harness.made_posts import WORDS_A_POST
from elastream_lab.harness.response_time import Responses, Spread, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elastream_lab.benchmarks.elasticity.run import ReplayedLoad
    from elastream_lab.benchmarks.elasticity.settings import ElasticitySettings


ORACLE: Final = "oracle"
START_S: Final = 8.0
"""From an executor's registration until it is warm: assumed, and less than on a busy machine."""
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Oracle:
    """What the load costs whoever knows it; nothing of it was measured."""

    executor_seconds: float
    response: Spread | None
    changes: int
    took_s: float
    executors: tuple[tuple[float, int], ...]
    """Seconds since the load began, and how many executors there are from then on."""
    way: str = ORACLE

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries."""
        return {
            "executor_seconds": round(self.executor_seconds, 1),
            "response_ms": None if self.response is None else self.response.as_json(),
            "changes": self.changes,
            "start_s": START_S,
            "executors": [[round(at_s, 1), number] for at_s, number in self.executors],
        }


def oracle(settings: ElasticitySettings, load: ReplayedLoad) -> Oracle:
    """Return the least that the load costs."""
    trigger_s, due_s = settings.trigger_s, load.due_ms / 1000
    trigger = np.floor(due_s / trigger_s).astype(np.int64)
    row_s = WORDS_A_POST * settings.service_us / 1e6
    work_s = (np.bincount(trigger) * row_s).astype(np.float64)
    fewest, most = settings.min_executors, settings.max_executors
    needs, done_s = needed(work_s, trigger_s, most)
    there = stays(needs, trigger_s, START_S, fewest)
    lives = [
        ExecutorLife(str(number), 1000 * came_s, 1000 * went_s)
        for number, (came_s, went_s) in enumerate(there)
    ]
    end_s = trigger_s * len(needs)
    steps = [step for step in number_alive(lives, 0.0, 1000 * end_s) if step[0] < 1000 * end_s]
    waits_ms = 1000 * (done_s[trigger] - due_s)
    return Oracle(
        executor_seconds=executor_seconds(lives, 0.0, 1000 * end_s),
        response=spread(Responses(1000 * due_s, waits_ms)),
        changes=changes(steps),
        took_s=end_s,
        executors=tuple((at_ms / 1000, number) for at_ms, number in steps),
    )


def needed(
    work_s: NDArray[np.float64], trigger_s: float, most: int
) -> tuple[list[int], NDArray[np.float64]]:
    """Return how many executors each trigger needs, and when the rows of each are done.

    ``work_s`` is the work of the rows that become due in each trigger. The first has none to do,
    and there is one more than triggers with rows, or several where the most do not suffice.
    """
    needs, done_s, left_s = [0], np.zeros(len(work_s)), 0.0
    for at, work in enumerate(work_s):
        left_s += float(work)
        needs.append(min(most, math.ceil(left_s / trigger_s - _ROUNDING)))
        done_s[at] = trigger_s * (at + 1) + left_s / max(1, needs[-1])
        left_s = max(0.0, left_s - needs[-1] * trigger_s)
    while left_s > _ROUNDING:
        needs.append(most)
        left_s = max(0.0, left_s - most * trigger_s)
    return needs, done_s


def stays(
    needs: Sequence[int], trigger_s: float, start_s: float, fewest: int
) -> tuple[tuple[float, float], ...]:
    """Return from when until when executors are there, in seconds; one may come several times."""
    always = [(0.0, trigger_s * len(needs))] * fewest
    numbers = range(fewest + 1, max(needs, default=0) + 1)
    return (
        *always,
        *(stay for number in numbers for stay in _stays_of(number, needs, trigger_s, start_s)),
    )


def _stays_of(
    number: int, needs: Sequence[int], trigger_s: float, start_s: float
) -> Iterator[tuple[float, float]]:
    came_s: float | None = None
    went_s = 0.0
    for at, need in enumerate(needs):
        if need < number:
            continue
        starts_s = max(0.0, at * trigger_s - start_s)
        if came_s is None:
            came_s = starts_s
        elif starts_s > went_s:
            yield came_s, went_s
            came_s = starts_s
        went_s = (at + 1) * trigger_s
    if came_s is not None:
        yield came_s, went_s
