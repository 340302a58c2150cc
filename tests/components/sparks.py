"""Which Spark a process of these tests runs on, and what it brings.

The product's own, or the one next to it that Delta's connector is made for: then Python finds that
one first.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.components.parts import FOLDER

__all__ = ["DELTA_SETTINGS", "DELTA_SPARK", "environment", "with_delta"]

DELTA_SPARK = FOLDER / "spark"
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # a job of this many tasks for each commit, which wait for executors as all tasks of a session
    # do
    "spark.databricks.delta.snapshotPartitions": "2",
}


def environment(spark: Path | None = None) -> dict[str, str]:
    """Return the environment of a process that runs on the product's Spark, or on this one."""
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    if spark is not None:
        paths.insert(0, str(spark))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def with_delta() -> bool:
    """Return whether this process runs on the Spark that Delta's connector is made for."""
    import pyspark

    return Path(pyspark.__file__).is_relative_to(DELTA_SPARK)
