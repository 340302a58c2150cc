from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.interleaving import SecondThread, WatchedLock
from tests.spark.running_query import back_to_two, until

from elastream.model.errors import UnsupportedSparkError
from elastream.spark.internals.spark_internals import PrivateDoor
from elastream.spark.internals.variants import variant_of
from elastream.spark.steer.warm_up import warm_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_spark_connect_session_is_refused_with_the_reason() -> None:
    connect = cast("Any", SimpleNamespace(client=object()))
    with pytest.raises(UnsupportedSparkError, match="Spark Connect") as refused:
        PrivateDoor.of(connect)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("version", ["3.5.9", "5.0.0", "four"])
def test_a_spark_that_is_not_spark_4_is_refused_in_one_line(version: str) -> None:
    session = cast("Any", SimpleNamespace(_jsparkSession=None, version=version))
    with pytest.raises(UnsupportedSparkError) as refused:
        PrivateDoor.of(session)
    said = f"Spark {version} is not supported: elastream needs Spark 4, 4.0 or later"
    assert str(refused.value) == said


def test_a_later_spark_4_is_tried_with_the_last_names_known() -> None:
    assert variant_of("4.9.0") == variant_of("4.3.0-SNAPSHOT")


def test_a_door_that_another_version_lacks_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = replace(variant_of(spark.version), writer="org.apache.spark.NoSuchWriter")
    monkeypatch.setattr("elastream.spark.internals.spark_internals.variant_of", lambda _: another)
    with pytest.raises(UnsupportedSparkError, match="StateStoreWriter is missing"):
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


def test_the_session_of_our_own_is_one_and_follows_the_settings(spark: SparkSession) -> None:
    door = PrivateDoor.of(spark)
    own = door.own_session()
    own.conf.set("spark.sql.shuffle.partitions", "7")
    own.conf.set("spark.elastream.own", "left over")
    spark.conf.set("spark.elastream.told", "later")
    try:
        assert door.own_session() is own
        assert own.conf.get("spark.elastream.told") == "later"
        assert own.conf.get("spark.elastream.own", None) is None
        wanted = spark.conf.get("spark.sql.shuffle.partitions")
        assert own.conf.get("spark.sql.shuffle.partitions") == wanted
        assert door.own_session(anew=True) is not own
    finally:
        spark.conf.unset("spark.elastream.told")


def test_two_threads_that_need_the_session_of_our_own_get_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, lock, found = PrivateDoor.of(spark), WatchedLock(), []
    monkeypatch.setattr(door, "_own_lock", lock)
    second = SecondThread(lock, lambda: found.append(door.own_session()))
    cloned = door.cloned_session

    def cloned_meanwhile() -> SparkSession:
        second()
        return cloned()

    monkeypatch.setattr(door, "cloned_session", cloned_meanwhile)
    own = door.own_session()
    second.join()
    assert found == [own]


def test_jobs_with_settings_of_their_own_do_not_change_those_of_others(spark: SparkSession) -> None:
    door, name = PrivateDoor.of(spark), "spark.sql.shuffle.partitions"
    usual = spark.conf.get(name)
    warm_up_s = door.own_session("warm-up", {name: "8", "spark.elastream.own": "on"})
    first_job_s = door.own_session("first job", {name: "1"})
    jobs = door.own_session()
    assert [each.conf.get(name) for each in (warm_up_s, first_job_s, jobs)] == ["8", "1", usual]
    again = door.own_session("warm-up", {name: None, "spark.elastream.own": None})
    assert again is warm_up_s
    assert again.conf.get("spark.elastream.own", None) is None


def test_folders_that_begin_alike_are_deleted_and_no_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("state", "state-warm-up-1/deep", "state-warm-up-2"):
        (tmp_path / name).mkdir(parents=True)
    PrivateDoor.of(spark).delete_folders(f"{tmp_path.as_uri()}/state-warm-up-")
    assert [folder.name for folder in tmp_path.iterdir()] == ["state"]


def test_a_warm_up_leaves_no_listener(spark: SparkSession) -> None:
    door = PrivateDoor.of(spark)
    listening = []
    for _ in range(2):  # the first brings the session that all of them share
        warm_up(door, door.executors()[:1], beside=None, batches=1)
        listening.append(int(door.listener_bus().listeners().size()))
    assert listening[1] == listening[0]
