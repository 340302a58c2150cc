"""A copy of state that has taken over writes what can be loaded again; with real stores."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from tests.spark.running_query import PATIENCE_S
from tests.spark.stores import STREAMING, Store, Stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = f"{STREAMING}.stateStore.checkpointFormatVersion"
BOUNDED = f"{STREAMING}.stateStore.rocksdb.boundedMemoryUsage"
DELTAS = f"{STREAMING}.stateStore.minDeltasForSnapshot"
LOCK_TIMEOUT = f"{STREAMING}.stateStore.rocksdb.lockAcquireTimeoutMs"
MOST_VERSIONS = 60
KEYS = 6
FEW = 2
"""Batches that leave so few files that the copy does not compact them before its first snapshot."""


def rows_of(version: int) -> dict[str, str]:
    """What the batch after a version writes: every key again, and one that stays."""
    return {f"key {key}": f"{version} {key}" for key in range(KEYS)} | {f"only {version}": "here"}


class Stream:
    """Batches that write one state, by one store or another."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.version = 0
        self.state: dict[str, str] = {}
        self.before: dict[str, str] = {}

    def run_batch(self, store: Store, *, new_family: str = "") -> None:
        """Write a version by a store, and do its maintenance."""
        rows = rows_of(self.version)
        store.write(self.version, rows, new_family=new_family)
        store.maintain()
        self.version += 1
        self.before, self.state = self.state, self.state | rows

    def assert_loadable(self) -> None:
        """A restart from the checkpoint finds what was written, at each version retained."""
        stores = self.stores
        assert stores.snapshot_files(self.version) <= stores.stored_files()
        assert stores.restarted(self.version) == self.state
        assert stores.restarted(self.version - 1) == self.before


@pytest.mark.parametrize(
    ("settings", "forced"),
    [
        pytest.param({}, False, id="uploaded by maintenance"),
        pytest.param({}, True, id="uploaded in the commit", marks=pytest.mark.slow),
        pytest.param({FORMAT: "2"}, False, id="files named by ids", marks=pytest.mark.slow),
        pytest.param({FORMAT: "2"}, True, id="files named by ids, uploaded in the commit"),
    ],
)
def test_state_can_be_loaded_after_a_copy_older_than_the_retention_took_over(
    spark: SparkSession, tmp_path: Path, settings: dict[str, str], forced: bool
) -> None:
    stores = Stores(spark, tmp_path, settings)
    owner, copy, stream = stores.owner(), stores.copy(), Stream(stores)
    for _ in range(FEW):
        stream.run_batch(owner)
    copy.follow(stream.version)
    loaded = stores.snapshot_files(stream.version)
    while loaded & stores.stored_files():
        assert stream.version < MOST_VERSIONS, "storage keeps files of the first snapshot"
        stream.run_batch(owner)
        copy.follow(stream.version)
    for number in range(4):
        stream.run_batch(copy, new_family=f"family {number}" if forced else "")
        owner.maintain()  # Spark may do so until it closes the store
        stream.assert_loadable()
    owner.close()
    copy.close()


def test_a_copy_of_the_newest_snapshot_uploads_only_what_is_new(
    spark: SparkSession, tmp_path: Path
) -> None:
    stores = Stores(spark, tmp_path, {DELTAS: "3"})
    owner, copy, stream = stores.owner(), stores.copy(), Stream(stores)
    for _ in range(4):
        stream.run_batch(owner)
    copy.follow(stream.version)
    loaded = stores.snapshot_files(stream.version)
    for _ in range(2):
        stream.run_batch(owner)
        copy.follow(stream.version)
    stream.run_batch(copy)
    assert loaded < stores.snapshot_files(stream.version)
    stream.assert_loadable()
    owner.close()
    copy.close()


@pytest.mark.parametrize("shared", [False, True], ids=["own cache", "shared cache"])
def test_a_copy_that_is_dropped_frees_its_block_cache_unless_it_is_shared(
    spark: SparkSession, tmp_path: Path, shared: bool
) -> None:
    stores = Stores(spark, tmp_path, {BOUNDED: str(shared).lower()})
    owner, copy, stream = stores.owner(), stores.copy(), Stream(stores)
    stream.run_batch(owner)
    copy.follow(stream.version)
    assert copy.has_block_cache()
    copy.close()
    assert copy.has_block_cache() == shared
    stream.run_batch(owner)
    stream.assert_loadable()
    owner.close()


def test_a_copy_whose_coordinator_does_not_answer_leaves_no_closed_store_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    stores = Stores(spark, tmp_path, {})
    owner, copy, stream = stores.owner(), stores.copy(), Stream(stores)
    stream.run_batch(owner)
    copy.follow(stream.version)
    copy.takes_over_unreported()
    assert not copy.is_open()
    assert not stores.known_to_spark()
    owner.close()


def test_a_replaced_store_is_closed_when_its_task_has_ended_and_not_waited_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    an_hour = {LOCK_TIMEOUT: "3600000"}
    stores = Stores(spark, tmp_path, an_hour)
    owner, stream = stores.owner(), Stream(stores)
    stream.run_batch(owner)
    task = owner.begin(stream.version)
    assert not owner.closes()
    assert owner.is_open()
    task.abort()
    assert owner.closes()
    assert not owner.is_open()


@pytest.mark.slow  # a fault of Spark's
def test_spark_s_own_closing_leaves_a_store_open_that_a_task_uses_for_too_long(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Why a keeper does not leave it to Spark: what was not closed in time is never closed."""
    stores = Stores(spark, tmp_path, {LOCK_TIMEOUT: "1"})
    owner, stream = stores.owner(), Stream(stores)
    stream.run_batch(owner)
    begun, over = threading.Event(), threading.Event()

    def run_task() -> None:
        owner.begin(stream.version)
        begun.set()
        over.wait(PATIENCE_S)

    threading.Thread(target=run_task, daemon=True).start()
    try:
        assert begun.wait(PATIENCE_S)
        with contextlib.suppress(Py4JJavaError):
            owner.close()
    finally:
        over.set()
    assert owner.is_open()
