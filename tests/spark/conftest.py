"""One embedded cluster for all tests of the Spark layer: two executors, room for one more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from elastream.spark.cluster import EmbeddedCluster, embedded, stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN_CLUSTER = {
    "test_cluster.py",
    "test_demo.py",
    "test_standalone.py",
    "test_taxi_command.py",
    "test_traffic_commands.py",
}
"""Files whose tests start a cluster of their own."""


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs live executors, and keep what shares a session on one worker."""
    for item in items:
        own = item.path.parent == Path(__file__).parent and item.path.name in OWN_CLUSTER
        shared = "spark" in getattr(item, "fixturenames", ())
        if own or shared:
            item.add_marker(pytest.mark.spark)
            group = "shared cluster" if shared else "own cluster"
            item.add_marker(pytest.mark.xdist_group(group))


EXECUTORS = 2
MAX_EXECUTORS = 3


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = embedded(
        EmbeddedCluster(
            executors=EXECUTORS,
            max_executors=MAX_EXECUTORS,
            executor_memory_mb=700,
            checkpoint_in_memory=True,
            app_name="elastream tests",
            config={"spark.sql.shuffle.partitions": "4"},
        ),
        timeout_s=300,
    )
    yield session
    stop(session)
