from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.spark.running_query import back_to_two, until

from elastream.model.errors import UnsupportedSparkError
from elastream.spark.door.private_door import PrivateDoor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_spark_connect_session_is_refused_with_the_reason() -> None:
    connect = cast("Any", SimpleNamespace(client=object()))
    with pytest.raises(UnsupportedSparkError, match="Spark Connect") as refused:
        PrivateDoor.of(connect)
    assert "\n" not in str(refused.value)


def test_a_door_that_another_version_lacks_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "elastream.spark.door.private_door.WRITER", "org.apache.spark.sql.execution.NoSuchWriter"
    )
    with pytest.raises(
        UnsupportedSparkError, match=r"StateStoreWriter\.stateStoreNames is missing"
    ):
        PrivateDoor.of(spark)


def test_an_executor_that_leaves_gets_no_state_any_more(spark: SparkSession) -> None:
    door = PrivateDoor.of(spark)
    assert door.request_executors(3)
    until(lambda: len(door.executors()) == 3, "a third executor is there")
    youngest = door.executors()[-1]
    door.retire_executors([youngest.id])
    assert youngest.id not in {executor.id for executor in door.executors()}
    back_to_two(door)


def test_every_door_opens_on_the_spark_that_is_installed(spark: SparkSession) -> None:
    door = PrivateDoor.of(spark)
    assert [executor.host for executor in door.executors()] == ["127.0.0.1"] * 2
    assert all(executor.cores == 1 and executor.added_ms > 0 for executor in door.executors())
