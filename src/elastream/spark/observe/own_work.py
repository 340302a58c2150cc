"""Marks of elastream's own jobs and queries, which take no part in the loop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OWN_NAME: Final = "elastream warm-up"
"""How the names of our throw-away queries begin."""
OWN_PROPERTY: Final = "elastream.own"
"""Local property of our jobs."""


@contextlib.contextmanager
def marked(session: SparkSession) -> Iterator[None]:
    """Mark the jobs of this thread, and of queries that it starts, as ours."""
    context = session.sparkContext
    context.setLocalProperty(OWN_PROPERTY, "true")
    try:
        yield
    finally:
        context.setLocalProperty(OWN_PROPERTY, None)  # type: ignore[arg-type]
