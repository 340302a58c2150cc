"""Real state stores in the driver: Spark's own, and copies of them, on one checkpoint folder."""

from __future__ import annotations

import json
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.spark.internals.java_text import generated_code
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.internals.variants import STATE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Offer", "Store", "Stores"]

RETAINED: Final = 2
STREAMING: Final = "spark.sql.streaming"
SETTINGS: Final = {
    f"{STREAMING}.minBatchesToRetain": str(RETAINED),
    f"{STREAMING}.ratioExtraSpaceAllowedInCheckpoint": "0",
    f"{STREAMING}.stateStore.minDeltasForSnapshot": "1",
    f"{STREAMING}.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # a snapshot that cannot be loaded must fail, not be replaced by an older one
    f"{STREAMING}.stateStore.autoSnapshotRepair.enabled": "false",
}
RUN: Final = "00000000-0000-0000-0000-000000000001"
DEFAULT: Final = "default"
KEY: Final = f"{RUN}/0/0/{DEFAULT}"
"""What keepers call the store."""


class Stores:
    """The stores of one partition, each a provider, as different executors would have them."""

    def __init__(self, spark: SparkSession, root: Path, settings: Mapping[str, str]) -> None:
        self._internals = SparkInternals.of(spark)
        self.jvm = jvm = self._internals.jvm
        state = jvm.org.apache.spark.sql.execution.streaming.state
        conf = jvm.org.apache.spark.sql.internal.SQLConf()
        for name, value in {**SETTINGS, **settings}.items():
            conf.setConfString(name, value)
        row = jvm.org.apache.spark.sql.types.StructType.fromDDL("value STRING")
        nothing = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
        hadoop = jvm.org.apache.hadoop.conf.Configuration()
        hadoop.set("sql.streaming.runId", RUN)
        self._spec = state.NoPrefixKeyStateEncoderSpec(row)
        self._row = row
        self._opening = (
            state.StateStoreId(str(root), 0, 0, DEFAULT),
            *(row, row, self._spec, True, state.StateStoreConf(conf, nothing), hadoop),
            *(False, jvm.scala.Option.empty()),
        )
        run = jvm.java.util.UUID.fromString(RUN)
        self.id = state.StateStoreProviderId(self._opening[0], run)
        self.ids: dict[int, Any] = {0: jvm.scala.Option.empty()}
        """By version, the id that its files are named by; nothing in checkpoint format 1."""
        self.root = root / "0" / "0"
        self._writer = jvm.org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter(1)

    def owner(self) -> Store:
        """Open a store as Spark does."""
        state = self.jvm.org.apache.spark.sql.execution.streaming.state
        return self._opened(state.RocksDBStateStoreProvider())

    def copy(self) -> Store:
        """Open a store as elastream does ahead of a task."""
        return self._opened(_copied_provider(self._internals).newInstance(self._java()))

    def restarted(self, version: int) -> dict[str, str]:
        """Return the rows of a version as a restart from the checkpoint finds them."""
        store = self.owner()
        try:
            return store.rows(version)
        finally:
            store.close()

    def snapshot_files(self, version: int) -> set[str]:
        """Return the files of state that a snapshot names."""
        unique = self.ids[version]
        name = f"{version}_{unique.get()}" if unique.isDefined() else str(version)
        with zipfile.ZipFile(self.root / f"{name}.zip") as snapshot:
            metadata = snapshot.read("metadata").decode().split("\n", 1)[1]
        return {file["dfsSstFileName"] for file in json.loads(metadata)["sstFiles"]}

    def stored_files(self) -> set[str]:
        """Return the files of state that storage has."""
        return {file.name for file in (self.root / "SSTs").glob("*.sst")}

    def known_to_spark(self) -> bool:
        """Return whether Spark has a provider of this partition here, which a task would use."""
        names = _generated(self._internals, "Names")
        (method,) = (m for m in names.getDeclaredMethods() if m.getName() == "loadedProviders")
        method.setAccessible(True)
        return bool(method.invoke(None, self._java()).contains(self.id))

    def row(self, value: str) -> Any:
        """Return a row of one string, in Spark's own layout."""
        self._writer.reset()
        self._writer.write(0, self.jvm.org.apache.spark.unsafe.types.UTF8String.fromString(value))
        return self._writer.getRow().copy()

    def family(self, store: Any, name: str) -> None:
        """Make a column family, as an operator does as its task begins."""
        store.createColFamilyIfAbsent(name, self._row, self._row, self._spec, False, False)

    def close_queued(self) -> None:
        """Close the providers that Spark's next maintenance would, where it has a queue of them."""
        module = self.jvm.java.lang.Class.forName(f"{STATE}.StateStore$")
        names = {field.getName(): field for field in module.getDeclaredFields()}
        if "unloadedProvidersToClose" not in names or "closeProvider" in {
            method.getName() for method in module.getDeclaredMethods()
        }:
            return
        field = names["unloadedProvidersToClose"]
        field.setAccessible(True)
        queue = field.get(module.getField("MODULE$").get(None))
        while not queue.isEmpty():
            queue.poll()._2().close()

    def _opened(self, provider: Any) -> Store:
        provider.init(*self._opening)
        return Store(self, provider)

    def _java(self, *values: Any) -> Any:
        return self._internals.java_objects(values)

    def call(self, target: Any, name: str, *arguments: Any) -> Any:
        """Call a method that is not public, by name."""
        (method,) = (m for m in target.getClass().getDeclaredMethods() if m.getName() == name)
        method.setAccessible(True)
        return method.invoke(target, self._java(*arguments))


class Store:
    """One provider of the state of the partition."""

    def __init__(self, stores: Stores, provider: Any) -> None:
        self._stores = stores
        self.provider = provider

    def write(self, version: int, rows: Mapping[str, str], *, new_family: str = "") -> None:
        """Do what a task does with the state of a version; commit the next one.

        A new column family makes Spark upload a snapshot within the commit.
        """
        stores = self._stores
        store = self._writable(version)
        if new_family:
            stores.family(store, new_family)
        for key, value in rows.items():
            store.put(stores.row(key), stores.row(value), DEFAULT)
        assert store.commit() == version + 1
        stores.ids[version + 1] = store.getStateStoreCheckpointInfo().stateStoreCkptId()

    def rows(self, version: int) -> dict[str, str]:
        """Load a version and return what is in it."""
        stores = self._stores
        store = self.provider.getReadStore(version, stores.ids[version])
        found = {}
        rows = store.iterator(DEFAULT)
        while rows.hasNext():
            pair = rows.next()
            found[pair.key().getString(0)] = pair.value().getString(0)
        store.abort()
        return found

    def follow(self, version: int) -> None:
        """Come to a version as a copy does."""
        self._stores.call(self.provider, "follow", version, self._stores.ids[version])

    def offer(self, *, old: int = 0) -> Offer:
        """Offer its state to others, as an executor that owns it does."""
        return Offer(self._stores, self.provider, old)

    def arrive(self, offer: Offer) -> None:
        """Fetch what is offered and open it, as a copy does."""
        arrival = offer.arrival(Path(self.provider.rocksDB().localRootDir().getPath()))
        self._stores.call(arrival, "fetch", offer.keeper, KEY)
        self._stores.call(self.provider, "arrive", arrival)
        self._stores.call(arrival, "drop")

    def local_files(self) -> set[str]:
        """Return the folders and files that it has on the local disk, but for RocksDB's own."""
        root = Path(self.provider.rocksDB().localRootDir().getPath())
        return {path.name for path in root.iterdir()}

    def has_block_cache(self) -> bool:
        """Return whether it holds RocksDB's cache of blocks, which is native memory."""
        cache = self.provider.rocksDB().getWriteBufferManagerAndCache()._2()
        return bool(cache.isOwningHandle())

    def begin(self, version: int) -> Any:
        """Let a task have a version, until it commits or aborts."""
        return self._writable(version)

    def closes(self) -> bool:
        """Close it as a keeper does; return whether that leaves nothing to do.

        Spark 4.1 and 4.2 close it in their next maintenance, which is done here.
        """
        stores = self._stores
        closing = _generated(stores._internals, "Closing")
        (method,) = (m for m in closing.getDeclaredMethods() if m.getName() == "close")
        method.setAccessible(True)
        done = bool(method.invoke(None, stores._java(stores.id, self.provider)))
        stores.close_queued()
        return done

    def takes_over_unreported(self) -> None:
        """Take over as a copy does whose coordinator does not answer."""
        stores = self._stores
        (constructor,) = _generated(stores._internals, "Copy").getDeclaredConstructors()
        constructor.setAccessible(True)
        copy = constructor.newInstance(stores._java(0, stores._java("key", stores.id)))
        for name, value in (("provider", self.provider), ("state", "ready")):
            field = copy.getClass().getDeclaredField(name)
            field.setAccessible(True)
            field.set(copy, value)
        nobody, replaced = stores.jvm.java.lang.Object(), stores.jvm.java.util.LinkedList()
        stores.call(copy, "takeOver", nobody, "localhost", "driver", replaced)
        assert replaced.isEmpty()

    def is_open(self) -> bool:
        """Return whether it has its RocksDB open."""
        store = self.provider.rocksDB()
        name = "org.apache.spark.sql.execution.streaming.state.RocksDB"
        field = self._stores.jvm.java.lang.Class.forName(name).getDeclaredField("db")
        field.setAccessible(True)
        return field.get(store) is not None

    def maintain(self) -> None:
        """Upload the snapshot that waits; delete what need not be retained."""
        self.provider.doMaintenance()

    def close(self) -> None:
        """Close the store and delete its local files."""
        self.provider.close()

    def _writable(self, version: int) -> Any:
        unique = self._stores.ids[version]
        methods = self.provider.getClass().getMethods()
        (parameters,) = {m.getParameterCount() for m in methods if m.getName() == "getStore"}
        return self.provider.getStore(version, unique, *[False] * (parameters - 2))


class Offer:
    """What an executor, here the driver, offers of the state of a store."""

    def __init__(self, stores: Stores, provider: Any, old: int) -> None:
        self._stores = stores
        internals, run = stores._internals, RUN
        self.name = f"elastream_{uuid.uuid4()}"
        names = _generated(internals, "Names")
        env = _static(stores, names, "sparkEnv")
        references = stores._java("driver", str(uuid.uuid4()), "localhost", 0, 3_600_000)
        self.keeper = _made(stores, "Keeper", env, references)
        committed = stores.jvm.java.util.HashMap()
        committed.put(run, old - 1)
        self._set(committed=committed, kept=stores.jvm.java.util.HashSet([KEY]))
        loaded = _static(stores, names, "loadedProviders")
        loaded.put(stores.id, provider)
        try:
            self._offer = _made(stores, "Offer", KEY, self.name)
            stores.call(self._offer, "make", self.keeper)
        finally:
            loaded.remove(stores.id)
        manager = _static(stores, _generated(internals, "Blocks"), "manager")
        self._blocks = manager.diskBlockManager()
        self._address = (manager.blockManagerId().host(), manager.blockManagerId().port())

    def __getattr__(self, name: str) -> Any:
        field = self._offer.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return field.get(self._offer)

    def arrival(self, folder: Path) -> Any:
        """Return what fetches it."""
        address = json.dumps([self.name, *self._address, "driver", self.version, self.id])
        source = self._stores.jvm.com.fasterxml.jackson.databind.ObjectMapper().readTree(address)
        sources = self._stores.jvm.java.util.HashMap()
        sources.put(KEY, source)
        self._set(sources=sources)
        into = self._stores.jvm.java.io.File(str(folder / "arriving"))
        return _made(self._stores, "Arrival", source, into)

    def blocks(self) -> int:
        """Return how many files the block manager has of it."""
        found = self._blocks.getAllFiles().iterator()
        count = 0
        while found.hasNext():
            count += self.name in found.next().getName()
        return count

    def drop(self) -> None:
        """Take it back."""
        self._stores.call(self._offer, "drop")

    def unwanted(self) -> None:
        """Let nobody want it any more."""
        self._set(sources=self._stores.jvm.java.util.HashMap())

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            field = self.keeper.getClass().getDeclaredField(name)
            field.setAccessible(True)
            field.set(self.keeper, value)


def _static(stores: Stores, declaring: Any, name: str) -> Any:
    (method,) = (
        each
        for each in declaring.getDeclaredMethods()
        if each.getName() == name and each.getParameterCount() == 0
    )
    method.setAccessible(True)
    return method.invoke(None, stores._java())


def _made(stores: Stores, name: str, *arguments: Any) -> Any:
    (constructor,) = _generated(stores._internals, name).getDeclaredConstructors()
    constructor.setAccessible(True)
    return constructor.newInstance(stores._java(*arguments))


_COMPILED: Final[dict[str, Any]] = {}
"""The class of the keeper's delivery, by application. Compiled once: py4j remembers methods by the
name of their class."""


def _generated(internals: SparkInternals, name: str) -> Any:
    """Return one of the classes of the keeper's text."""
    application = internals.context.applicationId()
    if application not in _COMPILED:
        codegen = internals.jvm.org.apache.spark.sql.catalyst.expressions.codegen
        text = generated_code(internals.jvm, *internals.variant.keeper)
        _COMPILED[application] = codegen.CodeGenerator.compile(text)._1().getClass()
    delivery = _COMPILED[application]
    return internals.jvm.java.lang.Class.forName(
        f"{delivery.getName()}${name}", True, delivery.getClassLoader()
    )


def _copied_provider(internals: SparkInternals) -> Any:
    """Return the constructor of the provider that a keeper makes."""
    (constructor,) = _generated(internals, "CopiedProvider").getDeclaredConstructors()
    constructor.setAccessible(True)
    return constructor
