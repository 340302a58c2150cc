"""The settings of Spark that steering needs, as data: the values, and why each is needed.

They make Spark place tasks where their state is, and let executors come and go gently, on every
master: pass :func:`session_settings` to the session's builder. :func:`wrong_settings` checks a
session that runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from elastream.model.errors import UnsupportedSparkError
from elastream.spark.internals.variants import ROCKSDB_PROVIDER, installed_variant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""How many partitions the state of a query has."""
LEAST_LOCALITY_WAIT_S: Final = 10.0
"""A shorter wait lets an idle executor take a task whose own executor is busy for a while."""


@dataclass(frozen=True, slots=True)
class WrongSetting:
    """A setting of the running session that steering cannot work with, or not well."""

    name: str
    value: str
    wanted: str
    """What to set when the session is built."""
    why: str
    required: bool
    """Whether placement fails without it; else moves or releases only cost more."""

    def __str__(self) -> str:
        return f"{self.name} is {self.value}; set it to {self.wanted}: {self.why}"


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    wanted: str
    default: str
    """What Spark does where nothing is set."""
    why: str
    serves: Callable[[str], bool] | None = None
    """Whether a value will do; ``None`` where only the wanted one will."""
    required: bool = True
    managers: tuple[str, ...] = ()
    """How masters begin to which it matters; empty: all."""
    serves_everywhere: bool = True
    """Whether it does no harm on other masters."""

    def concerns(self, master: str) -> bool:
        return not self.managers or master.startswith(self.managers)

    def accepts(self, value: str) -> bool:
        if self.serves is not None:
            return self.serves(value)
        return value.strip().lower() == self.wanted.lower()


def _seconds(value: str) -> float | None:
    units = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "": 1e-3}
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", value.strip().lower())
    return None if match is None or match[2] not in units else int(match[1]) * units[match[2]]


def _waits_long_enough(value: str) -> bool:
    return (_seconds(value) or 0.0) >= LEAST_LOCALITY_WAIT_S


def _is_quick(value: str) -> bool:
    seconds = _seconds(value)
    return seconds is not None and seconds <= 5.0


def _bears_refusals(value: str) -> bool:
    """Return whether all tries of some scale-outs may fail: one a second, a minute each."""
    return value.strip().isdigit() and int(value) >= 1000


_WAIT: Final = "a task must wait for its executor, or another one takes it and the state follows"
_HAND_OVER: Final = "an executor that leaves must hand over its shuffle files, or a batch waits"
_STATE_STORE: Final = "spark.sql.streaming.stateStore"
_STORAGE: Final = "spark.storage.decommission"
_MASTER: Final = "spark.master"
_CHECKPOINTS: Final = "spark.sql.streaming.checkpointLocation"
_FILE_SYSTEMS: Final = "spark.hadoop.fs."
_JARS: Final = ("spark.jars", "spark.jars.packages")
_FOR_EVER: Final = "not set"
_FEW_FAILURES: Final = "twice the first executors"
_KUBERNETES: Final = "k8s://"
_BY_FILE_CONTEXT: Final = "Spark's own choice"

_FOLLOWS: Final = "a task must follow its state, not the bulk of its input"
_TAKES_AWAY: Final = "Spark's own allocation takes executors away that hold state"
_SECOND_COPY: Final = "a speculative copy of a task takes the state to another executor"
_LARGE: Final = "RocksDB holds and loads states that are larger than memory"
_CHANGES: Final = "a batch then writes its changes and not a snapshot"
_ISOLATED: Final = (
    "with it each query has compiled code of its own on each executor, and none can be warmed"
)
_CHECKS: Final = "an executor that leaves checks this often whether it has handed over everything"
_FORGETS: Final = (
    "Spark ends an application that has lost three executors, or twice as many as it began "
    "with; without it all count that were ever lost"
)
_QUOTA: Final = (
    "a pod that a quota refuses counts as a lost executor from Spark 4.2 on, and is tried for "
    "every second: a namespace without room would end the application"
)
_IN_MEMORY: Final = "the in-memory HDFSBackedStateStoreProvider"

_advice = partial(_Rule, required=False)
_RULES: Final = (
    _Rule("spark.locality.wait", "30s", "3s", _WAIT, _waits_long_enough),
    _Rule("spark.locality.wait.process", "30s", "30s", _WAIT, _waits_long_enough),
    _Rule("spark.shuffle.reduceLocality.enabled", "false", "true", _FOLLOWS),
    _Rule("spark.dynamicAllocation.enabled", "false", "false", _TAKES_AWAY),
    _Rule("spark.speculation", "false", "false", _SECOND_COPY),
    _advice(f"{_STATE_STORE}.providerClass", ROCKSDB_PROVIDER, _IN_MEMORY, _LARGE),
    _advice(f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled", "true", "false", _CHANGES),
    _advice("spark.sql.artifact.isolation.enabled", "false", "true", _ISOLATED),
    _advice("spark.decommission.enabled", "true", "false", _HAND_OVER),
    _advice(f"{_STORAGE}.enabled", "true", "false", _HAND_OVER),
    _advice(f"{_STORAGE}.shuffleBlocks.enabled", "true", "true", _HAND_OVER),
    _advice(f"{_STORAGE}.replicationReattemptInterval", "1s", "30s", _CHECKS, _is_quick),
    _advice(
        "spark.executor.failuresValidityInterval",
        "1h",
        _FOR_EVER,
        _FORGETS,
        lambda value: value != _FOR_EVER,
        managers=("yarn", _KUBERNETES),
    ),
    _advice(
        "spark.executor.maxNumFailures",
        "10000",
        _FEW_FAILURES,
        _QUOTA,
        _bears_refusals,
        managers=(_KUBERNETES,),
        serves_everywhere=False,
    ),
)

_TASK_CPUS: Final = "spark.task.cpus"
_MAINTENANCE: Final = f"{_STATE_STORE}.maintenanceInterval"
_FLUSH: Final = "spark.shuffle.streaming.networkBufferMaxWaitTimeMs"


def _shares_cores(value: str) -> bool:
    try:
        return 0 < float(value) <= 0.25
    except ValueError:
        return False


def _is_rare(value: str) -> bool:
    return (_seconds(value) or 0.0) >= 30.0


def _flushes_soon(value: str) -> bool:
    return value.strip().isdigit() and int(value) <= 10


_REALTIME_RULES: Final = (
    _advice(
        _TASK_CPUS,
        "0.1",
        "1",
        "all tasks of a Real-time batch take their slots at once, and too few end the query: let "
        "them share cores",
        _shares_cores,
    ),
    _advice(
        _MAINTENANCE,
        "60s",
        "60s",
        "maintenance may unload the state of a task that is about to move while a batch uses it",
        _is_rare,
    ),
    _advice(
        _FLUSH,
        "5",
        "50",
        "a row waits up to this number of milliseconds in the streaming shuffle",
        _flushes_soon,
    ),
)
"""What Real-time queries need in addition, of Spark 4.3 and later."""

_FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"


def _local_disk_rule() -> _Rule:
    """Return the rule for checkpoints on a local disk.

    Not elsewhere: on HDFS the file manager that Spark chooses by itself replaces a file in one
    step, this one does not; on S3 this one silently keeps the old file.
    """
    return _Rule(
        _FILE_MANAGER,
        installed_variant().file_manager,
        _BY_FILE_CONTEXT,
        "that one starts ten processes for each file that it writes to a local disk, this one two",
        lambda value: value != _BY_FILE_CONTEXT,
        required=False,
    )


def session_settings(
    *, local_disk: bool = False, master: str | None = None, realtime: bool = False
) -> dict[str, str]:
    """Return the settings that steering needs, for the builder of a session on any master.

    ``local_disk``: all checkpoints of the session lie on disks of this machine; batches are shorter
    then. ``master``: the session's, where it is known; on Kubernetes one more serves.
    ``realtime``: the session has queries in Real-time Mode.
    """
    rules = [rule for rule in _RULES if rule.serves_everywhere or rule.concerns(master or "")]
    rules += _REALTIME_RULES if realtime else ()
    found = {rule.name: rule.wanted for rule in rules}
    return found | local_disk_settings() if local_disk else found


def local_disk_settings() -> dict[str, str]:
    """Return those settings that serve where checkpoints lie on a local disk, steered or not."""
    return {_FILE_MANAGER: _local_disk_rule().wanted}


def names_other_storage(settings: Mapping[str, str]) -> bool:
    """Return whether settings name storage other than disks of this machine, as S3 or HDFS."""
    if any(name.startswith(_FILE_SYSTEMS) for name in settings):
        return True
    scheme, there, _ = settings.get(_CHECKPOINTS, "").partition("://")
    jars = " ".join(settings.get(name, "") for name in _JARS)
    connector = re.search(r"hadoop-(aws|azure|cloud|aliyun|cos)|gcs-connector", jars)
    return bool(there and scheme != "file") or connector is not None


def state_settings() -> dict[str, str]:
    """Return those of them that say how state is kept, which serve an unsteered query too."""
    return {
        name: value for name, value in session_settings().items() if name.startswith(_STATE_STORE)
    }


def wrong_among(settings: Mapping[str, str], *, realtime: bool = False) -> tuple[WrongSetting, ...]:
    """Return every setting that does not serve; one that is left out has Spark's default.

    Where the master is this machine itself, its checkpoints are taken to be there too, unless the
    settings speak of other storage. ``realtime``: whether there are queries in Real-time Mode.
    """
    master = settings.get(_MASTER, "")
    here = master.startswith("local") and not names_other_storage(settings)
    rules = [rule for rule in _RULES if rule.concerns(master)]
    rules += [_local_disk_rule()] if here else []
    rules += _REALTIME_RULES if realtime else []
    found = ((rule, settings.get(rule.name, rule.default)) for rule in rules)
    return tuple(
        WrongSetting(rule.name, value, rule.wanted, rule.why, rule.required)
        for rule, value in found
        if not rule.accepts(value)
    )


def advised(wrong: Sequence[WrongSetting]) -> tuple[WrongSetting, ...]:
    """Return those that only make moves cost more; refuse a session that cannot be steered."""
    required = [setting for setting in wrong if setting.required]
    if required:
        more = f" (and {len(required) - 1} more)" if len(required) > 1 else ""
        raise UnsupportedSparkError(f"the session cannot be steered: {required[0]}{more}")
    return tuple(wrong)


def wrong_settings(spark: SparkSession, *, realtime: bool = False) -> tuple[WrongSetting, ...]:
    """Return every setting of the running session that does not serve.

    ``realtime``: whether it has queries in Real-time Mode.
    """
    rules = (*_RULES, *_REALTIME_RULES)
    names = [_MASTER, _FILE_MANAGER, _CHECKPOINTS, *_JARS, *(rule.name for rule in rules)]
    values = {name: spark.conf.get(name, None) for name in names}
    systems = {
        name: value
        for name, value in spark.sparkContext.getConf().getAll()
        if name.startswith(_FILE_SYSTEMS)
    }
    known = {name: value for name, value in values.items() if value is not None}
    return wrong_among({**systems, **known}, realtime=realtime)


@contextmanager
def changed_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of the session while a query starts; the query keeps a copy of them."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
