"""What does a standby of every task cost a steady query? Spans with and without, in turn.

The query of :mod:`elastream_lab.benchmarks.overhead` with more keys, attached all the time and as
fast as it can. With standbys every executor follows the other's tasks: it replays what each batch
has changed, which here are all keys. So that is the cost: a row of state that is written twice. It
is measured where a batch changes a row of state for every 3 rows that it reads, and for every 30.
Each pair of neighbouring spans, in turn with and without first, gives one ratio of the time a batch
takes, which is what a user feels where no core is idle, and one of the CPU time in all processes.
The goal is at most 5 %.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import elastream
from elastream.spark.sessions.embedded_cluster import embedded_session, scratch_folder
from elastream_lab.benchmarks.overhead import (
    LEAD_BATCHES,
    POLICY,
    Span,
    await_batch,
    measured_cluster,
    print_spans,
    span,
    started,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


KEYS: Final = (10_000, 100_000)
PAIRS: Final = 5
_STANDING: Final = replace(
    POLICY, standbys=1, movement=replace(POLICY.movement, standby_bytes=1 << 40)
)
_POLL_S: Final = 0.1
_PATIENCE_S: Final = 300.0


def run() -> None:
    """Print what a batch takes with and without standbys."""
    for keys in KEYS:
        _print(_pairs(keys), keys)


def _pairs(keys: int) -> list[tuple[Span, Span]]:
    with embedded_session(measured_cluster()) as spark:
        folder = scratch_folder(spark)
        query = started(spark, folder, keys=keys)
        await_batch(query, LEAD_BATCHES)
        pairs = [_pair(query, folder / "log.jsonl", pair % 2 == 0) for pair in range(PAIRS)]
        query.stop()
    return pairs


def _pair(query: StreamingQuery, log: Path, standing_first: bool) -> tuple[Span, Span]:
    if standing_first:
        return _measured(query, log, _STANDING), _measured(query, log, POLICY)
    without = _measured(query, log, POLICY)
    return _measured(query, log, _STANDING), without


def _measured(query: StreamingQuery, log: Path, policy: elastream.Policy) -> Span:
    with elastream.attach(query, policy, log=log) as attachment:
        deadline = time.monotonic() + _PATIENCE_S
        while policy.standbys and not _all_stand(attachment):
            if time.monotonic() > deadline:
                raise RuntimeError(f"not every task has a copy: {attachment.explain()}")
            time.sleep(_POLL_S)
        return span(query)


def _all_stand(attachment: elastream.Attachment) -> bool:
    tasks = attachment.where().keys()
    return bool(tasks) and attachment.state.standbys.there >= tasks


def _print(pairs: list[tuple[Span, Span]], keys: int) -> None:
    standing, without = zip(*pairs, strict=True)
    title = f"{len(pairs)} pairs, {keys:,} keys"
    print_spans(title, {"standbys of all": standing, "none": without})
    _tell("longer", [one.batch_s / other.batch_s - 1 for one, other in pairs])
    _tell("more CPU time in all", [one.cpu_s.total / other.cpu_s.total - 1 for one, other in pairs])


def _tell(what: str, shares: list[float]) -> None:
    error = statistics.stdev(shares) / len(shares) ** 0.5
    print(
        f"with standbys {statistics.mean(shares):+.1%} {what} (standard error {error:.1%}), "
        f"median of the pairs {statistics.median(shares):+.1%} (goal: at most 5 %)"
    )
