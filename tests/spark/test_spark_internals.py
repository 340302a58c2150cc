from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.interleaving import SecondThread, WatchedLock
from tests.spark.running_query import back_to_two, until

from elastream.model.errors import UnsupportedSparkError
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.internals.variants import variant_of
from elastream.spark.steer.warm_up import warm_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_spark_connect_session_is_refused_with_the_reason() -> None:
    connect = cast("Any", SimpleNamespace(client=object()))
    with pytest.raises(UnsupportedSparkError, match="Spark Connect") as refused:
        SparkInternals.of(connect)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("version", ["3.5.9", "5.0.0", "four"])
def test_a_spark_that_is_not_spark_4_is_refused_in_one_line(version: str) -> None:
    session = cast("Any", SimpleNamespace(_jsparkSession=None, version=version))
    with pytest.raises(UnsupportedSparkError) as refused:
        SparkInternals.of(session)
    said = f"Spark {version} is not supported: elastream needs Spark 4, 4.0 or later"
    assert str(refused.value) == said


def test_a_later_spark_4_is_tried_with_the_last_names_known() -> None:
    known = variant_of("4.3.0-SNAPSHOT")
    assert variant_of("4.9.0") == replace(known, send_methods=None), "files go by storage there"


def test_a_door_that_another_version_lacks_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = replace(variant_of(spark.version), writer="org.apache.spark.NoSuchWriter")
    monkeypatch.setattr("elastream.spark.internals.spark_internals.variant_of", lambda _: another)
    with pytest.raises(UnsupportedSparkError, match="NoSuchWriter is missing"):
        SparkInternals.of(spark)


def test_an_executor_that_leaves_gets_no_state_any_more(spark: SparkSession) -> None:
    internals = SparkInternals.of(spark)
    assert internals.request_executors(3)
    until(lambda: len(internals.executors()) == 3, "a third executor is there")
    youngest = internals.executors()[-1]
    internals.retire_executors([youngest.id])
    assert youngest.id not in {executor.id for executor in internals.executors()}
    back_to_two(internals)


def test_every_door_opens_on_the_spark_that_is_installed(spark: SparkSession) -> None:
    internals = SparkInternals.of(spark)
    assert [executor.host for executor in internals.executors()] == ["127.0.0.1"] * 2
    assert all(executor.cores == 1 and executor.added_ms > 0 for executor in internals.executors())


def test_the_session_of_our_own_is_one_and_follows_the_settings(spark: SparkSession) -> None:
    internals = SparkInternals.of(spark)
    own = internals.own_session()
    own.conf.set("spark.sql.shuffle.partitions", "7")
    own.conf.set("spark.elastream.own", "left over")
    spark.conf.set("spark.elastream.told", "later")
    try:
        assert internals.own_session() is own
        assert own.conf.get("spark.elastream.told") == "later"
        assert own.conf.get("spark.elastream.own", None) is None
        wanted = spark.conf.get("spark.sql.shuffle.partitions")
        assert own.conf.get("spark.sql.shuffle.partitions") == wanted
        assert internals.own_session(anew=True) is not own
    finally:
        spark.conf.unset("spark.elastream.told")


def test_two_threads_that_need_the_session_of_our_own_get_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    internals, lock, found = SparkInternals.of(spark), WatchedLock(), []
    monkeypatch.setattr(internals, "_own_lock", lock)
    second = SecondThread(lock, lambda: found.append(internals.own_session()))
    cloned = internals.cloned_session

    def cloned_meanwhile() -> SparkSession:
        second()
        return cloned()

    monkeypatch.setattr(internals, "cloned_session", cloned_meanwhile)
    own = internals.own_session()
    second.join()
    assert found == [own]


def test_jobs_with_settings_of_their_own_do_not_change_those_of_others(spark: SparkSession) -> None:
    internals, name = SparkInternals.of(spark), "spark.sql.shuffle.partitions"
    usual = spark.conf.get(name)
    warm_up_s = internals.own_session("warm-up", {name: "8", "spark.elastream.own": "on"})
    first_job_s = internals.own_session("first job", {name: "1"})
    jobs = internals.own_session()
    assert [each.conf.get(name) for each in (warm_up_s, first_job_s, jobs)] == ["8", "1", usual]
    again = internals.own_session("warm-up", {name: None, "spark.elastream.own": None})
    assert again is warm_up_s
    assert again.conf.get("spark.elastream.own", None) is None


def test_folders_that_begin_alike_are_deleted_and_no_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("state", "state-warm-up-1/deep", "state-warm-up-2"):
        (tmp_path / name).mkdir(parents=True)
    SparkInternals.of(spark).delete_folders(f"{tmp_path.as_uri()}/state-warm-up-")
    assert [folder.name for folder in tmp_path.iterdir()] == ["state"]


def test_a_warm_up_leaves_no_listener(spark: SparkSession) -> None:
    internals = SparkInternals.of(spark)
    listening = []
    for _ in range(2):  # the first brings the session that all of them share
        warm_up(internals, internals.executors()[:1], batches=1)
        listening.append(int(internals.listener_bus().listeners().size()))
    assert listening[1] == listening[0]
