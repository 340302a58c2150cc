"""The mechanisms that the migration benchmark compares, by name.

``live`` warms a new executor, copies state to it ahead of its tasks, and moves a few partitions a
batch, bounded by bytes as well; ``live-plain`` does the same without copies: state is loaded in the
batch that moves it; ``live-cold`` is without the warm-up; ``live-spare`` has a warm executor with
no state ready beforehand, and takes that; ``progressive`` moves one partition a batch, the paper's
smallest mini-migration, and ``all-at-once`` moves everything between two batches, as section 5.2 of
paper 000 does before it turns to mini-migrations, both without copies. ``stock``, ``pause`` and
``restart`` are the baselines of :mod:`elastream_lab.mechanisms.baselines`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from queue import Empty, Queue
from typing import TYPE_CHECKING, Final

from elastream.attachment import attach
from elastream.core.decisions import Decision
from elastream.core.policy import Movement, Policy
from elastream.goals.by_hand import ByHand
from elastream.model.errors import SparkError
from elastream_lab.mechanisms.running_stream import RunningStream
from elastream_lab.mechanisms.trace import Ahead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MECHANISMS: Final = (
    "stock",
    "live",
    "live-plain",
    "live-cold",
    "live-spare",
    "all-at-once",
    "progressive",
    "pause",
    "restart",
)

_BYTES_A_BATCH: Final = 64 << 20
_LEAST_BYTES: Final = 1 << 20
"""``live`` copies all but the smallest states, so that it can be compared with ``live-plain``."""

_PAIRS: Final = Movement(moves_per_batch=2, bytes_per_batch=_BYTES_A_BATCH)

MOVEMENTS: Final[Mapping[str, Movement]] = {
    "live": replace(_PAIRS, copy_least_bytes=_LEAST_BYTES),
    "live-plain": replace(_PAIRS, copy_ahead=False),
    "live-cold": replace(_PAIRS, warm_up=False),
    "live-spare": _PAIRS,
    "progressive": replace(_PAIRS, moves_per_batch=1, copy_ahead=False),
    "all-at-once": Movement(moves_per_batch=None, bytes_per_batch=None, copy_ahead=False),
}


def spares(mechanism: str) -> int:
    """Return how many executors a mechanism has next to those that hold state."""
    return 1 if mechanism == "live-spare" else 0


def live_policy(mechanism: str, *, least: int, most: int, tau: float) -> Policy:
    """Return the policy of one of the live mechanisms."""
    return Policy(
        min_executors=least,
        max_executors=most + spares(mechanism),
        tau=tau,
        goal=ByHand(),
        spares=spares(mechanism),
        movement=MOVEMENTS[mechanism],
    )


class Live:
    """Live migration by the controller, asked for a number of executors."""

    def __init__(
        self,
        stream: RunningStream,
        policy: Policy,
        warm_up_stream: Callable[[SparkSession], DataFrame],
        *,
        timeout_s: float = 300.0,
    ) -> None:
        self._ends: Queue[Decision] = Queue()
        self._timeout_s = timeout_s
        self._spares = policy.spares
        self.ahead = Ahead()
        """What the last change had copied ahead of its tasks."""
        self._attachment = attach(
            stream.query, policy, log=self._decided, warm_up_stream=warm_up_stream
        )

    def scale_to(self, executors: int) -> None:
        """Ask the controller, and wait until it says that it is done."""
        while not self._ends.empty():
            self._ends.get()
        self._attachment.scale_to(executors)
        if not self._attachment.wait(self._timeout_s):
            self._attachment.abandon("the benchmark waits no longer")
        try:
            end = self._ends.get(timeout=self._timeout_s)  # the log is written a little later
        except Empty:
            raise SparkError("the controller did not answer") from None
        if end.kind != "done":
            raise SparkError(end.reason)
        figures = end.figures
        self.ahead = Ahead(int(figures["tasks_ahead"]), int(figures["state_bytes_ahead"]))

    @property
    def is_ready(self) -> bool:
        """Whether the spares that the policy asks for are there and warm, and no other starts."""
        state = self._attachment.state
        warm = sum(spare.warm for spare in state.spares)
        return state.preparation is None and len(state.spares) == warm == self._spares

    def close(self) -> None:
        """Leave the query alone."""
        self._attachment.detach()

    def _decided(self, decision: Decision) -> None:
        if decision.kind in ("done", "abandon", "refuse"):
            self._ends.put(decision)
