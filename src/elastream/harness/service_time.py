"""A stated service time for every row, slept where its state is.

On a machine with fewer cores than executors, work that burns CPU cannot scale. Like the delay
operators of the papers' experiments, a row therefore costs ``service_us`` that is *slept*, in the
stage that holds the state: an executor without state helps nobody, one that holds its share does.
Rows are to be shuffled before the sleep by the very partitioning that the stateful operator asks
for; then Spark adds no second shuffle and the sleep runs in the task of the state partition.

The sleep is ``LockSupport.parkNanos``, called by SQL's ``reflect`` on the JVM's side: no Python
process stands in the stateful stage. A timer is off by some 50 µs, too much for a service time of
a few hundred: so about every c-th row, chosen by a hash of its place in the stream, sleeps c times
as long, with c such that one sleep is a millisecond or more. The sum is as stated to a few per
cent of a batch, and the same in every replay.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["slowed"]

_LEAST_NAP_US: Final = 1000.0


def slowed(rows: DataFrame, service_us: float, *place: str) -> DataFrame:
    """Return the rows, each of which takes ``service_us`` to pass; 0 for nothing.

    ``place`` are the columns that tell one row from another.
    """
    from pyspark.sql import functions as f

    if service_us == 0:
        return rows
    every = max(1, math.ceil(_LEAST_NAP_US / service_us))
    nap_ns = round(every * service_us * 1000)
    naps = f.pmod(f.hash(*place), f.lit(every)) == 0
    park = f"reflect('java.util.concurrent.locks.LockSupport', 'parkNanos', {nap_ns}L) is not null"
    return rows.where(~naps | f.expr(park))
