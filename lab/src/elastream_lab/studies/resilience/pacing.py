"""Packets at rates that change from point to point: this many for every trigger.

A trigger of Spark fires where the clock is a multiple of its interval. Just before each one the
packets that came since the last are made available, so that every batch has the packets of whole
triggers and a rate is what it says, however short the run.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from elastream.model.errors import SparkError
from elastream_lab.harness.commit_log import CommittedBatch
from elastream_lab.harness.replaying import Replay

_AHEAD_S: Final = 0.15
"""How long before a trigger its packets are there."""
_LEAST_S: Final = 0.05
"""How long before it at the least; less is too late for it, and they come for the next one."""
_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Fed:
    """What was fed when."""

    opened: tuple[tuple[float, tuple[int, ...]], ...]
    """For each trigger the time in milliseconds since the epoch, and how many packets of each feed
    were available from then on."""
    until_ms: float
    """When the packets of one more trigger would have come."""


def feed(replay: Replay, rates: Sequence[float], *, triggers: int, trigger_s: float) -> Fed:
    """Feed each query at its rate for this many triggers; returns when the next would fire."""
    begin = replay.lead
    first_s = next_trigger_s(time.time(), trigger_s) - _AHEAD_S
    opened = []
    for number in range(1, triggers + 1):
        _sleep_until(first_s + (number - 1) * trigger_s)
        rows = [
            at + round(rate * trigger_s * number) for at, rate in zip(begin, rates, strict=True)
        ]
        _open(replay, rows)
        opened.append((time.time() * 1000, tuple(rows)))
    _sleep_until(first_s + triggers * trigger_s)
    return Fed(tuple(opened), time.time() * 1000)


@contextmanager
def fed_meanwhile(
    replay: Replay, rates: Callable[[], Sequence[float]], *, trigger_s: float
) -> Iterator[None]:
    """Feed the queries in the background, at rates that are asked for again at every trigger.

    Packets come for every trigger, as they do at a point: what a batch costs without any packet it
    costs as often. On a machine that is too slow for that they wait until those of the trigger
    before the last are read, so that the backlog does not grow.
    """
    done = threading.Event()
    failed: list[BaseException] = []

    def keep_feeding() -> None:
        before = sum(replay.lead)
        try:
            while not done.is_set():
                replay.look()
                if replay.rows_done < before:
                    done.wait(_LOOK_S)
                    continue
                before = sum(replay.lead)
                feed(replay, rates(), triggers=1, trigger_s=trigger_s)
        except SparkError as error:
            failed.append(error)

    feeder = threading.Thread(target=keep_feeding, name="elastream-pacing", daemon=True)
    feeder.start()
    try:
        yield
    finally:
        done.set()
        feeder.join()
    if failed:
        raise failed[0]


def next_trigger_s(now_s: float, trigger_s: float) -> float:
    """Return the first trigger that packets of now can come for; the clock's, in seconds."""
    return (math.floor((now_s + _LEAST_S) / trigger_s) + 1) * trigger_s


def waited_s(
    batches: Sequence[CommittedBatch], opened: Sequence[tuple[float, int]], at_ms: float
) -> float:
    """Return how long the oldest packet that no batch had begun at a moment had waited by then.

    ``opened``: from when on how many packets of the feed were available.
    """
    begun = max((batch.end for batch in batches if batch.began_ms <= at_ms), default=0)
    waiting = (at_ms - opened_ms for opened_ms, rows in opened if rows > begun)
    return max(waiting, default=0.0) / 1000


def _open(replay: Replay, rows: Sequence[int]) -> None:
    for wanted, one in zip(rows, replay.feeds, strict=True):
        if wanted > one.recording.rows:
            raise SparkError(f"{wanted:,} packets are wanted, {one.recording.rows:,} were made")
    replay.open(rows)


def _sleep_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.time()))
