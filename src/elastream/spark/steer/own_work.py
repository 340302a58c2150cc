"""Marking jobs as elastream's own: their work counts for nobody."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from elastream.spark.observe.shapes import OWN_PROPERTY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def marked(session: SparkSession) -> Iterator[None]:
    """Mark the jobs of this thread, and of queries that it starts, as ours."""
    context = session.sparkContext
    context.setLocalProperty(OWN_PROPERTY, "true")
    try:
        yield
    finally:
        context.setLocalProperty(OWN_PROPERTY, None)  # type: ignore[arg-type]
