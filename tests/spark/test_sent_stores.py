"""State that comes from the executor that owns it; with real stores and blocks, in the driver."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from tests.spark.running_query import until
from tests.spark.stores import STREAMING, Offer, Ordered, Store, Stores, address
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
def offered(owner: Store, *, committed: int | None = None) -> Iterator[Offer]:
    offer = owner.offer(committed=committed)
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
        with offered(owner, committed=2) as offer:
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
                stores.call(arrival, "fetch")
            stores.call(arrival, "drop")
            assert copy.local_files() == before
        copy.follow(stream.version)
        assert copy.rows(stream.version) == stream.state


def test_without_checkpoint_ids_a_version_is_not_offered_before_its_batch_has_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    stores = Stores(spark, tmp_path / "state", {})
    with two(stores) as (owner, copy):
        stream = Stream(stores)
        for _ in range(2):
            stream.run_batch(owner)
        with offered(owner, committed=1) as offer:
            assert (offer.state, offer.blocks()) == ("waiting", 0)
            owner.write(1, {"key 0": "of a second attempt"})  # it may have run elsewhere as well
            owner.maintain()
            (tmp_path / "commits").mkdir()
            (tmp_path / "commits" / "1").write_text("v1")  # the driver's word of it comes later
            until(lambda: offer.make() == "offered", "it is offered")
            copy.arrive(offer)
            assert copy.rows(2) == owner.rows(2) == stores.restarted(2)
            assert copy.rows(2)["key 0"] == "of a second attempt"


def test_with_checkpoint_ids_a_version_is_offered_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    stores = Stores(spark, tmp_path, {FORMAT: "2"})
    with two(stores) as (owner, _):
        stream = Stream(stores)
        for _ in range(2):
            stream.run_batch(owner)
        with offered(owner, committed=1) as offer:
            assert (offer.state, offer.version) == ("offered", 2)


def test_an_offer_waits_for_the_task_that_has_the_store_without_holding_up_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    stores = Stores(spark, tmp_path, {})
    with two(stores) as (owner, _):
        stream = Stream(stores)
        stream.run_batch(owner)
        task = owner.begin(1)
        with offered(owner, committed=2) as offer:
            assert (offer.state, offer.heldMs, offer.blocks()) == ("waiting", 0, 0)
            assert task.commit() == 2
            assert offer.make() == "offered"


def test_what_the_driver_wants_no_more_is_not_offered(spark: SparkSession, tmp_path: Path) -> None:
    stores = Stores(spark, tmp_path, {})
    with two(stores) as (owner, _):
        stream = Stream(stores)
        stream.run_batch(owner)
        task = owner.begin(1)
        with offered(owner, committed=2) as offer:
            offer.unwanted()
            assert task.commit() == 2
            assert (offer.make(), offer.blocks()) == ("waiting", 0)


@contextmanager
def ordered(stores: Stores) -> Iterator[Ordered]:
    copy = Ordered(stores)
    try:
        yield copy
    finally:
        copy.drop()


def test_a_copy_waits_until_the_driver_says_where_it_comes_from(
    spark: SparkSession, tmp_path: Path
) -> None:
    stores = Stores(spark, tmp_path, {})
    with two(stores) as (owner, _), ordered(stores) as copy:
        stream = Stream(stores)
        stream.run_batch(owner)
        copy.hears(committed=1, waits=True)
        assert copy.follow(1) == "waiting"
        with offered(owner) as offer:
            copy.hears(committed=1, source=offer.source())
            until(lambda: copy.follow(1) == "ready", "it has come")
            assert (copy.version, copy.bytes) == (1, 0)
            assert copy.sent > 0
    with ordered(stores) as copy:
        copy.hears(committed=1)
        assert copy.follow(1) == "ready", "what has no source comes from storage"
        assert copy.sent == 0


@pytest.mark.parametrize("cancelled", ["not kept", "query ended"])
def test_a_cancelled_copy_is_not_loaded_from_storage(
    spark: SparkSession, tmp_path: Path, cancelled: str
) -> None:
    stores = Stores(spark, tmp_path, {})
    with two(stores) as (owner, _), silent_host() as port, ordered(stores) as copy:
        stream = Stream(stores)
        stream.run_batch(owner)
        source = address(stores, ["elastream_none", "localhost", port, "1", 1, "null"])
        copy.hears(committed=1, source=source)
        for _ in range(2):
            assert copy.follow(1) == "opening", "nothing waits for the host that does not answer"
        if cancelled == "not kept":
            copy.hears(committed=1, source=source, kept=False)
        else:
            copy.hears(committed=None, source=source)
        for _ in range(3):
            copy.follow(1)
        assert (copy.version, copy.bytes) == (-1, 0)
        assert "wanted no more" in copy.notSent
        until(lambda: not copy.arriving(), "the thread that fetched has ended")


def test_what_an_owner_does_not_send_comes_from_storage(
    spark: SparkSession, tmp_path: Path
) -> None:
    stores = Stores(spark, tmp_path, {})
    with two(stores) as (owner, _), silent_host() as port, ordered(stores) as copy:
        stream = Stream(stores)
        stream.run_batch(owner)
        source = address(stores, ["elastream_none", "localhost", port, "1", 1, "null"])
        copy.hears(committed=1, source=source)
        assert copy.follow(1) == "opening"
        copy.hears(committed=1)  # the driver gave the owner up
        until(lambda: copy.follow(1) == "ready", "it is loaded")
        assert copy.sent == 0


@contextmanager
def silent_host() -> Iterator[int]:
    """The port of a host that takes connections and never answers."""
    with socket.create_server(("localhost", 0)) as server:
        yield server.getsockname()[1]


def test_nothing_is_offered_where_it_would_fill_the_disk(
    spark: SparkSession, tmp_path: Path
) -> None:
    stores = Stores(spark, tmp_path, {})
    with two(stores) as (owner, _):
        stream = Stream(stores)
        stream.run_batch(owner)
        root = Path(owner.provider.rocksDB().localRootDir().getPath())
        (working,) = root.glob("workingDir*")
        with (working / "much.tmp").open("wb") as much:
            much.truncate(1 << 42)  # and takes no room
        with offered(owner) as offer:
            assert offer.state == "refused"
            assert "no room on its disk" in offer.why
