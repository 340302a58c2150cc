"""A stated service time for every row, slept or burnt where its state is.

On a machine with fewer cores than executors, work that burns CPU cannot scale. Like the delay
operators of the papers' experiments, a row therefore costs ``service_us`` that is *slept*, in the
stage that holds the state: an executor without state helps no one, one that holds its share does.
Rows are to be shuffled before the sleep by the very partitioning that the stateful operator asks
for; then Spark adds no second shuffle and the sleep runs in the task of the state partition.

The sleep is ``LockSupport.parkNanos``, called by SQL's ``reflect`` on the JVM's side: no Python
process is in the stateful stage. A timer is off by some 50 µs, too much for a service time of
a few hundred: so about every c-th row, chosen by a hash of its place in the stream, sleeps c times
as long, with c such that one sleep is a millisecond or more. The sum is as stated to a few per
cent of a batch, and the same in every replay.

What sleeps leaves the cores to others: to a JVM that starts, above all. Where that would flatter,
the time is *burnt* instead: the same rows hash a password (``Crypt.crypt`` of the Commons Codec
that Spark brings along) for as many rounds as :func:`hashing_pace` finds that a core does in that
time. Burnt work is a number of rounds: on a machine that is busy with others it takes longer.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_LEAST_NAP_US: Final = 1000.0
_FEWEST_ROUNDS: Final = 1000
"""The format of the hashed password allows no fewer."""
_ROWS_TRIED: Final = 20
_ROUNDS_TRIED: Final = 10_000
_TRIES: Final = 4


def slowed(
    rows: DataFrame, service_us: float, *place: str, rounds_a_ms: float | None = None
) -> DataFrame:
    """Return the rows, each of which takes ``service_us`` to pass; 0 for nothing.

    ``place`` are the columns that tell one row from another. ``rounds_a_ms`` is how many rounds of
    hashing burn a millisecond; ``None`` where time is slept.
    """
    from pyspark.sql import functions as f

    if service_us == 0:
        return rows
    if rounds_a_ms is None:
        least_us = _LEAST_NAP_US
    else:
        least_us = max(_LEAST_NAP_US, 1000 * _FEWEST_ROUNDS / rounds_a_ms)
    every = max(1, math.ceil(least_us / service_us))
    spent_us = every * service_us
    if rounds_a_ms is None:
        park = f"'java.util.concurrent.locks.LockSupport', 'parkNanos', {round(1000 * spent_us)}L"
        spend = f"reflect({park}) is not null"
    else:
        spend = _hashed(round(rounds_a_ms * spent_us / 1000))
    spends = f.pmod(f.hash(*place), f.lit(every)) == 0
    return rows.where(~spends | f.expr(spend))


def hashing_pace(spark: SparkSession) -> float:
    """Return how many rounds of hashing a core of an executor does in a millisecond.

    The quickest of a few tries, less what a job of as many rows takes that hashes nothing.
    """

    def took_s(condition: str) -> float:
        rows = spark.range(0, _ROWS_TRIED, 1, 1).where(condition)
        began = time.monotonic()
        rows.write.format("noop").mode("overwrite").save()
        return time.monotonic() - began

    nothing_s = min(took_s("id >= 0") for _ in range(_TRIES))
    hashed_s = min(took_s(_hashed(_ROUNDS_TRIED)) for _ in range(_TRIES))
    rounds = _ROWS_TRIED * _ROUNDS_TRIED
    return rounds / max(1000 * (hashed_s - nothing_s), 1.0)


def _hashed(rounds: int) -> str:
    """Return a condition, always true, that hashes for this many rounds, in Spark's SQL."""
    salt = f"'$6$rounds={rounds}$elastream'"
    return f"reflect('org.apache.commons.codec.digest.Crypt', 'crypt', 'word', {salt}) is not null"
