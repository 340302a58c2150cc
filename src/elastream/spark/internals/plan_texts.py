"""What a plan says about itself, where PySpark can only print it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def analyzed_plan(frame: DataFrame) -> str:
    """Return the analyzed logical plan of a frame, a line for each node."""
    return str(frame._jdf.queryExecution().analyzed().toString())
