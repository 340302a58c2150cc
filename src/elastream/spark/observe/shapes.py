"""Which queries can be steered, told before they have run a batch.

Steering happens between micro-batches. A query without state has none to place; one that runs
continuously, or in real-time mode, has no batches to move between: its tasks run for as long as it
does, or for minutes, each in its own slot.
"""

from __future__ import annotations

from typing import Final

from elastream.spark.internals.queries import RunningQuery
from elastream.spark.internals.spark_internals import SparkInternals

OWN_NAME: Final = "elastream warm-up"
"""How the names of our own throw-away queries begin; they take no part."""
OWN_PROPERTY: Final = "elastream.own"
"""Local property of the jobs that are ours; their work counts for nobody."""


def refusal(internals: SparkInternals, query: RunningQuery) -> str | None:
    """Return why a query cannot be steered; ``None`` where it can."""
    why = internals.queries.trigger(query).refusal
    if why is not None:
        return why
    if not internals.queries.is_stateful(query):
        return "keeps no state, so there is none to place"
    return None
