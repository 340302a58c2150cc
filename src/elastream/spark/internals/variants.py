"""What Spark's private names are called in each version: the one place that knows.

Spark 4.1 moved much of streaming into packages of their own, and its operators name their stores;
in 4.3 the parts of a query say whether they keep state. The Java texts that keep copies of state
differ by version, for they extend Spark's own stores. All else is the same from 4.0 on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from elastream.model.errors import UnsupportedSparkError

_STREAMING: Final = "org.apache.spark.sql.execution.streaming"
STATE: Final = f"{_STREAMING}.state"
ROCKSDB_PROVIDER: Final = f"{STATE}.RocksDBStateStoreProvider"
_OPERATORS: Final = f"{_STREAMING}.operators.stateful"


@dataclass(frozen=True, slots=True)
class Variant:
    """The names of one version of Spark."""

    writer: str
    """What every stateful operator of a plan is."""
    names_stores: bool
    """Whether an operator has the names of its state stores; else they follow from its class."""
    tells_stateful: bool
    """Whether a part of a query says that it keeps state; else that follows from its class."""
    terminated: str
    """The state of a query that shall begin no other batch."""
    file_manager: str
    """What writes a checkpoint to a local disk with the fewest processes."""
    join_sides: str
    """Has a constant for each side of a join."""
    join_stores: str
    """Knows the schemas of a join's state stores."""
    newest_java: int | None
    """The last Java that it runs on; ``None`` where none is known to be too new."""
    has_stateful_realtime: bool
    """Whether queries with state run in Real-time Mode."""
    keeper: tuple[str, ...]
    """The texts that make the keeper of copies, next to this file; not those that send state."""
    copy_methods: Mapping[str, tuple[str, ...]]
    """The methods that the keeper and its delivery need, public or not, by class."""
    send_methods: Mapping[str, tuple[str, ...]] | None
    """Those that it needs to send state to another executor; ``None`` where that was not tried."""


_DELIVERY: Final = {
    f"{STATE}.StateStoreCoordinatorRef": ("getLocation", "deactivateInstances"),
    "org.apache.spark.sql.execution.WholeStageCodegenEvaluatorFactory": ("createEvaluator",),
}
_BLOCKS: Final = {
    "org.apache.spark.storage.BlockManager": ("blockTransferService", "removeBlock", "putBytes"),
    "org.apache.spark.storage.BlockManager$TempFileBasedBlockStoreUpdater": ("save",),
    "org.apache.spark.network.shuffle.ExternalBlockStoreClient": ("init", "fetchBlocks"),
    "org.apache.spark.SecurityManager": ("getIOEncryptionKey", "isSslRpcEnabled"),
}
_KEEPER: Final = ("keeper.java", "names.java", "errand.java", "store_files.java")
_ROCKSDB: Final = ("replayChangelog", "load", "loadedVersion_$eq", "lastSnapshotVersion")
_FILES: Final = "rocksDBFileMapping"
_FILES_4_2: Final = f"{STATE.replace('.', '$')}$RocksDB$${_FILES}"

_4_0: Final = Variant(
    writer=f"{_STREAMING}.StateStoreWriter",
    names_stores=False,
    tells_stateful=False,
    terminated=f"{_STREAMING}.TERMINATED$",
    file_manager=f"{_STREAMING}.FileSystemBasedCheckpointFileManager",
    join_sides=f"{_STREAMING}.StreamingSymmetricHashJoinHelper",
    join_stores=f"{STATE}.SymmetricHashJoinStateManager",
    newest_java=23,  # its Hadoop calls what Java 24 took away
    has_stateful_realtime=False,
    keeper=(*_KEEPER, "store_4_0.java", "closing_4_0.java"),
    copy_methods={
        f"{STATE}.RocksDB": (*_ROCKSDB, _FILES, "acquire", "release", "getAcquiredThreadInfo"),
        ROCKSDB_PROVIDER: ("rocksDB",),
        f"{STATE}.StateStore$": ("loadedProviders",),
        **_DELIVERY,
    },
    send_methods=None,
)
_4_1: Final = replace(
    _4_0,
    writer=f"{_OPERATORS}.StateStoreWriter",
    names_stores=True,
    terminated=f"{_STREAMING}.runtime.TERMINATED$",
    file_manager=f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
    join_sides=f"{_OPERATORS}.join.StreamingSymmetricHashJoinHelper",
    join_stores=f"{_OPERATORS}.join.SymmetricHashJoinStateManager",
    keeper=(*_KEEPER, "store_4_1.java", "closing_4_1.java"),
    copy_methods={
        f"{STATE}.RocksDB": (*_ROCKSDB, _FILES, "getFullLineage"),
        ROCKSDB_PROVIDER: (
            *("createRocksDB", "getReadStore", "rocksDB"),
            f"{STATE.replace('.', '$')}$RocksDBStateStoreProvider$$stateMachine",
        ),
        f"{STATE}.RocksDBStateMachine": ("state",),
        f"{STATE}.StateStore$": ("loadedProviders", "unloadedProvidersToClose"),
        **_DELIVERY,
    },
)
_4_2: Final = replace(
    _4_1,
    newest_java=None,
    keeper=(*_KEEPER, "store_4_2.java", "closing_4_1.java"),
    copy_methods={
        **_4_1.copy_methods,
        f"{STATE}.RocksDB": (*_ROCKSDB, _FILES_4_2, "getFullLineage"),
    },
)
_4_3: Final = replace(
    _4_2,
    tells_stateful=True,
    has_stateful_realtime=True,
    keeper=(*_KEEPER, "store_4_2.java", "closing_4_3.java"),
    copy_methods={
        **_4_2.copy_methods,
        f"{STATE}.StateStore$": ("loadedProviders", "closeProvider"),
    },
    send_methods={
        f"{STATE}.RocksDB": ("createFileManager", "fileChecksumThreadPoolSize"),
        f"{STATE}.RocksDBStateMachine": ("acquireStamp", "releaseStamp"),
        f"{STATE}.RocksDBFileManager": (
            *("loadCheckpointFromDfs", "getEligibleSnapshotsForVersion", "dfsFileSuffix"),
            "getSnapshotVersionsAndUniqueIdsFromLineage",
        ),
        f"{STATE}.RocksDBFileMapping": ("mapToDfsFile", "clear", "snapshotsPendingUpload"),
        **_BLOCKS,
    },
)
_LATER: Final = replace(_4_3, send_methods=None)
"""What files of a store mean may change though no name does: state is loaded from storage."""
_BY_MINOR: Final = {0: _4_0, 1: _4_1, 2: _4_2, 3: _4_3}


def variant_of(version: str) -> Variant:
    """Return the names of a version; a later Spark 4 is tried with those of the last known one."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or numbers[1] != "4":
        raise UnsupportedSparkError(
            f"Spark {version} is not supported: elastream needs Spark 4, 4.0 or later"
        )
    return _BY_MINOR.get(int(numbers[2]), _LATER)


@cache
def installed_variant() -> Variant:
    """Return the names of the Spark that is installed here."""
    import pyspark

    return variant_of(pyspark.__version__)
