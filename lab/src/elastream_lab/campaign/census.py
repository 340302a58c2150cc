"""What is in the driver, of ours: threads and listeners, before attaching and after it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import elastream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_OURS: Final = str(Path(elastream.__file__).parent)
_SPARKS_OWN: Final = "StreamingQueryListenerBus"
"""Spark leaves one for every query that was ever started, for it clones a session for each. Those
of elastream's own queries are taken away; its session, which all of them share, has one too."""


def threads() -> list[str]:
    """Return where the threads of this process are that run code of elastream."""
    found = []
    for frame in sys._current_frames().values():
        at: Any = frame
        while at is not None:
            if at.f_code.co_filename.startswith(_OURS):
                found.append(f"{Path(at.f_code.co_filename).name}: {at.f_code.co_name}")
                break
            at = at.f_back
    return sorted(found)


def listeners(spark: SparkSession) -> Counter[str]:
    """Return the classes of what listens to the application's events."""
    context = spark.sparkContext._jsc.sc()
    bus = context.listenerBus().listeners()
    names = [bus.get(each).getClass().getSimpleName() for each in range(bus.size())]
    own = spark._jsparkSession.streams().listListeners()
    return Counter([*names, *(each.getClass().getSimpleName() for each in own)])


def left_over(before: Counter[str], after: Counter[str], started: int) -> list[str]:
    """Return which listeners are there now and were not before.

    ``started`` is how many queries the application itself has started.
    """
    sparks = Counter({_SPARKS_OWN: started + 1})
    return sorted((after - before - sparks).elements())
