"""State that comes from the executor that owns it; with real stores and blocks, in the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from tests.spark.stores import STREAMING, Offer, Store, Stores
from tests.spark.test_copied_stores import DELTAS, FORMAT, Stream

from elastream.spark.internals.variants import installed_variant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(
    installed_variant().send_methods is None, reason="this Spark loads from storage alone"
)
CHECKSUMS = f"{STREAMING}.stateStore.rowChecksum.enabled"
BATCHES = 5


@contextmanager
def two(stores: Stores) -> Iterator[tuple[Store, Store]]:
    """An owner, and another executor's copy."""
    owner, copy = stores.owner(), stores.copy()
    try:
        yield owner, copy
    finally:
        owner.close()
        copy.close()


@contextmanager
def offered(owner: Store, *, old: int = 0) -> Iterator[Offer]:
    offer = owner.offer(old=old)
    try:
        yield offer
    finally:
        offer.drop()
        assert offer.blocks() == 0


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="format 1", marks=pytest.mark.slow),
        pytest.param({FORMAT: "2"}, id="format 2", marks=pytest.mark.slow),
        pytest.param({CHECKSUMS: "true"}, id="row checksums", marks=pytest.mark.slow),
        pytest.param({DELTAS: "3"}, id="between snapshots"),
        pytest.param({DELTAS: "1000"}, id="no snapshot yet", marks=pytest.mark.slow),
        pytest.param({DELTAS: "3", FORMAT: "2"}, id="between snapshots, format 2"),
    ],
)
def test_state_that_was_sent_equals_the_checkpoint_and_goes_on_as_its_owner_would(
    spark: SparkSession, tmp_path: Path, settings: dict[str, str]
) -> None:
    stores = Stores(spark, tmp_path, settings)
    with two(stores) as (owner, copy):
        stream = Stream(stores)
        for number in range(BATCHES):
            stream.run_batch(owner, new_family=f"family {number}" if number == 1 else "")
        before = owner.local_files()
        with offered(owner) as offer:
            assert (offer.state, offer.version, offer.why) == ("offered", stream.version, "")
            assert owner.local_files() == before
            held = copy.local_files()
            copy.arrive(offer)
            assert copy.local_files() == held
        assert copy.rows(stream.version) == stream.state
        for _ in range(2):
            stream.run_batch(owner)
            copy.follow(stream.version)
            assert copy.rows(stream.version) == stream.state
        for number in range(4):
            stream.run_batch(copy, new_family=f"later {number}" if number == 2 else "")
            owner.maintain()  # Spark may do so until it closes the store
            if DELTAS not in settings:
                stream.assert_loadable()
            assert stores.restarted(stream.version) == stream.state


def test_what_storage_has_is_not_uploaded_again(spark: SparkSession, tmp_path: Path) -> None:
    stores = Stores(spark, tmp_path, {DELTAS: "3"})
    with two(stores) as (owner, copy):
        stream = Stream(stores)
        for _ in range(4):  # more files, and RocksDB would merge them
            stream.run_batch(owner)
        stored = stores.snapshot_files(4)  # the first version has one, and each third after it
        with offered(owner) as offer:
            copy.arrive(offer)
        for _ in range(3):
            stream.run_batch(copy)
        assert stored <= stores.snapshot_files(7)
        stream.assert_loadable()


def test_state_is_sent_that_storage_deletes_before_the_copy_writes(
    spark: SparkSession, tmp_path: Path
) -> None:
    stores = Stores(spark, tmp_path, {})
    with two(stores) as (owner, copy):
        stream = Stream(stores)
        for _ in range(2):
            stream.run_batch(owner)
        loaded = stores.snapshot_files(stream.version)
        with offered(owner) as offer:
            copy.arrive(offer)
        while loaded & stores.stored_files():
            assert stream.version < 60
            stream.run_batch(owner)
            copy.follow(stream.version)
        for _ in range(3):
            stream.run_batch(copy)
            stream.assert_loadable()


def test_an_owner_with_an_older_version_than_the_last_committed_offers_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    stores = Stores(spark, tmp_path, {})
    with two(stores) as (owner, _):
        stream = Stream(stores)
        stream.run_batch(owner)
        before = owner.local_files()
        with offered(owner, old=2) as offer:
            assert offer.state == "refused"
            assert "version 1 is loaded there, which is old" in offer.why
            assert offer.blocks() == 0
        assert owner.local_files() == before


def test_a_transfer_that_breaks_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    stores = Stores(spark, tmp_path, {})
    with two(stores) as (owner, copy):
        stream = Stream(stores)
        for _ in range(2):
            stream.run_batch(owner)
        before = copy.local_files()
        with offered(owner) as offer:
            root = Path(copy.provider.rocksDB().localRootDir().getPath())
            arrival = offer.arrival(root)
            offer.unwanted()
            with pytest.raises(Py4JJavaError):
                stores.call(arrival, "fetch", offer.keeper, "another key")
            stores.call(arrival, "drop")
            assert copy.local_files() == before
        copy.follow(stream.version)
        assert copy.rows(stream.version) == stream.state
