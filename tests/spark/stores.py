"""Real state stores in the driver: Spark's own, and copies of them, on one checkpoint folder."""

from __future__ import annotations

import json
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.spark.internals.java_text import generated_code
from elastream.spark.internals.keepers import Keepers
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.internals.variants import STATE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Offer", "Ordered", "Store", "Stores", "address"]

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
        return self._opened(_static(self, _generated(self._internals, "Arriving"), "provider"))

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
        declaring = target.getClass()
        while not (found := [m for m in declaring.getDeclaredMethods() if m.getName() == name]):
            declaring = declaring.getSuperclass()
        (method,) = found
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

    def offer(self, *, committed: int | None = None) -> Offer:
        """Offer its state to others, as an executor that owns it does.

        ``committed``: the version that the last committed batch left, as the driver says; the one
        that is loaded, if nothing is given.
        """
        loaded = int(self.provider.rocksDB().loadedVersion())
        return Offer(self._stores, self.provider, loaded if committed is None else committed)

    def arrive(self, offer: Offer) -> None:
        """Fetch what is offered and open it, as a copy does."""
        arrival = offer.arrival(Path(self.provider.rocksDB().localRootDir().getPath()))
        self._stores.call(arrival, "fetch")
        _static(
            self._stores,
            _generated(self._stores._internals, "Arriving"),
            "open",
            self.provider,
            arrival,
        )
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

    def __init__(self, stores: Stores, provider: Any, committed: int) -> None:
        self._stores = stores
        self._provider = provider
        internals = stores._internals
        self.name = f"elastream_{uuid.uuid4()}"
        self.keeper = keeper(stores)
        tell(
            stores,
            self.keeper,
            committed={RUN: committed - 1},
            kept=[KEY],
            offered={KEY: self.name},
        )
        self._offer = _made(stores, "Offer", KEY, self.name)
        self.make()
        manager = _static(stores, _generated(internals, "Blocks"), "manager")
        self._blocks = manager.diskBlockManager()
        self._address = (manager.blockManagerId().host(), manager.blockManagerId().port())

    def __getattr__(self, name: str) -> Any:
        field = self._offer.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return field.get(self._offer)

    def arrival(self, folder: Path) -> Any:
        """Return what fetches it."""
        source = self.source()
        tell(self._stores, self.keeper, sources={KEY: source})
        into = self._stores.jvm.java.io.File(str(folder / "arriving"))
        return _made(self._stores, "Arrival", source, into, self.keeper, KEY)

    def source(self) -> Any:
        """Return its address, as the driver gives it to a target."""
        return address(self._stores, [self.name, *self._address, "driver", self.version, self.id])

    def make(self) -> str:
        """Make it, if that is possible now; return its state then."""
        loaded = _static(
            self._stores, _generated(self._stores._internals, "Names"), "loadedProviders"
        )
        loaded.put(self._stores.id, self._provider)
        try:
            self._stores.call(self._offer, "make", self.keeper)
        finally:
            loaded.remove(self._stores.id)
        return str(self.state)

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
        tell(self._stores, self.keeper, sources={}, offered={})


class Ordered:
    """A copy that an executor, here the driver, was ordered to make; only a test calls it."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self.keeper = keeper(stores)
        _, key, value, spec, families, conf, hadoop, many, schemas = stores._opening
        internals = stores._internals
        shared = internals.jvm.org.apache.spark.util.SerializableConfiguration(hadoop)
        context = internals.jvm.org.apache.spark.api.java.JavaSparkContext(internals.context)
        self._shared = context.broadcast(shared)
        opening = (self._shared, key, value, spec, families, conf, many, schemas, 0)
        self._copy = _made(stores, "Copy", 0, stores._java(KEY, stores.id, *opening))

    def __getattr__(self, name: str) -> Any:
        field = self._copy.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return field.get(self._copy)

    def hears(
        self,
        *,
        committed: int | None,
        kept: bool = True,
        source: Any = None,
        waits: bool = False,
    ) -> None:
        """Take in a message of the driver: what has committed, and where the copy comes from."""
        tell(
            self._stores,
            self.keeper,
            committed={} if committed is None else {RUN: committed - 1},
            kept=[KEY] if kept else [],
            sources={KEY: address(self._stores, None) if waits else source}
            if waits or source is not None
            else {},
            read=0,
        )

    def follow(self, version: int) -> str:
        """Do what the keeper does every now and then; return the copy's state then."""
        self._stores.call(self._copy, "follow", version - 1, self.keeper)
        return str(self.state)

    def arriving(self) -> list[Any]:
        """Return the threads that fetch state."""
        threads = self._stores.jvm.java.lang.Thread.getAllStackTraces().keySet()
        return [thread for thread in threads if thread.getName() == "elastream copies arrival"]

    def drop(self) -> None:
        self._stores.call(self._copy, "drop")
        self._shared.destroy()


def address(stores: Stores, value: Any) -> Any:
    """Return a value as the JSON that a keeper reads."""
    return stores.jvm.com.fasterxml.jackson.databind.ObjectMapper().readTree(json.dumps(value))


def keeper(stores: Stores) -> Any:
    """Return a keeper that does nothing on its own."""
    env = _static(stores, _generated(stores._internals, "Names"), "sparkEnv")
    references = stores._java("driver", str(uuid.uuid4()), "localhost", 0, 3_600_000)
    return _made(stores, "Keeper", env, references)


def tell(stores: Stores, keeper: Any, **values: Any) -> None:
    """Give a keeper what a message of the driver's says."""
    for name, value in values.items():
        given = value
        if isinstance(value, dict):
            given = stores.jvm.java.util.HashMap()
            for key, each in value.items():
                given.put(key, each)
        elif isinstance(value, list):
            given = stores.jvm.java.util.HashSet(value)
        field = keeper.getClass().getDeclaredField(name)
        field.setAccessible(True)
        field.set(keeper, given)


def _static(stores: Stores, declaring: Any, name: str, *arguments: Any) -> Any:
    (method,) = (
        each
        for each in declaring.getDeclaredMethods()
        if each.getName() == name and each.getParameterCount() == len(arguments)
    )
    method.setAccessible(True)
    return method.invoke(None, stores._java(*arguments))


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
        text = generated_code(internals.jvm, *Keepers(internals).texts())
        _COMPILED[application] = codegen.CodeGenerator.compile(text)._1().getClass()
    delivery = _COMPILED[application]
    return internals.jvm.java.lang.Class.forName(
        f"{delivery.getName()}${name}", True, delivery.getClassLoader()
    )
