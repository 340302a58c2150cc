"""A copy of state that has taken over writes what can be loaded again; with real stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.stores import STREAMING, Store, Stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = f"{STREAMING}.stateStore.checkpointFormatVersion"
BOUNDED = f"{STREAMING}.stateStore.rocksdb.boundedMemoryUsage"
DELTAS = f"{STREAMING}.stateStore.minDeltasForSnapshot"
MOST_VERSIONS = 60
KEYS = 6
FEW = 2
"""Batches that leave so few files that the copy does not compact them before its first snapshot."""


def rows_of(version: int) -> dict[str, str]:
    """What the batch after a version writes: every key anew, and one that stays."""
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
        pytest.param({}, True, id="uploaded in the commit"),
        pytest.param({FORMAT: "2"}, False, id="files named by ids"),
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
