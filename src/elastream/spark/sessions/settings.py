"""What steering asks of Spark's settings, as data: the values, and why each is needed.

Placement tells Spark where a task's state lives; these settings make Spark listen, and let
executors come and go gently. They hold for every master: pass :func:`session_settings` to the
session's builder. :func:`wrong_settings` checks a session that is already running.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from elastream.model.errors import UnsupportedSparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "LEAST_LOCALITY_WAIT_S",
    "WrongSetting",
    "advised",
    "local_disk_settings",
    "session_settings",
    "state_settings",
    "wrong_among",
    "wrong_settings",
]

LEAST_LOCALITY_WAIT_S: Final = 10.0
"""A shorter wait lets an idle executor take a task whose own executor is busy for a while."""


@dataclass(frozen=True, slots=True)
class WrongSetting:
    """A setting of the running session that steering cannot work with, or not well."""

    name: str
    value: str
    """What the session has."""
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


_WAIT: Final = "a task must wait for its executor, or another one takes it and the state follows"
_HAND_OVER: Final = "an executor that leaves must hand over its shuffle files, or a batch waits"
_STATE_STORE: Final = "spark.sql.streaming.stateStore"
_MASTER: Final = "spark.master"
_BY_FILE_CONTEXT: Final = "Spark's own choice"
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_RULES: Final = (
    _Rule("spark.locality.wait", "30s", "3s", _WAIT, _waits_long_enough),
    _Rule("spark.locality.wait.process", "30s", "30s", _WAIT, _waits_long_enough),
    _Rule(
        "spark.shuffle.reduceLocality.enabled",
        "false",
        "true",
        "a task must follow its state, not the bulk of its input",
    ),
    _Rule(
        "spark.dynamicAllocation.enabled",
        "false",
        "false",
        "Spark's own allocation takes executors away that hold state",
    ),
    _Rule(
        "spark.speculation",
        "false",
        "false",
        "a speculative copy of a task takes the state to another executor",
    ),
    _Rule(
        f"{_STATE_STORE}.providerClass",
        _ROCKSDB,
        "the in-memory HDFSBackedStateStoreProvider",
        "RocksDB holds and loads states that are larger than memory",
        required=False,
    ),
    _Rule(
        f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled",
        "true",
        "false",
        "a batch then writes its changes and not a snapshot",
        required=False,
    ),
    _Rule(
        "spark.sql.artifact.isolation.enabled",
        "false",
        "true",
        "with it each query has compiled code of its own on each executor, and none can be warmed",
        required=False,
    ),
    _Rule("spark.decommission.enabled", "true", "false", _HAND_OVER, required=False),
    _Rule("spark.storage.decommission.enabled", "true", "false", _HAND_OVER, required=False),
    _Rule(
        "spark.storage.decommission.shuffleBlocks.enabled",
        "true",
        "true",
        _HAND_OVER,
        required=False,
    ),
    _Rule(
        "spark.storage.decommission.replicationReattemptInterval",
        "1s",
        "30s",
        "an executor that leaves looks so often whether it has handed over everything",
        _is_quick,
        required=False,
    ),
)

_LOCAL_DISK_RULES: Final = (
    _Rule(
        "spark.sql.streaming.checkpointFileManagerClass",
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager",
        _BY_FILE_CONTEXT,
        "that one starts ten processes for each file that it writes to a local disk, this one two",
        lambda value: value != _BY_FILE_CONTEXT,
        required=False,
    ),
)
"""What serves where checkpoints lie on a local disk. Not elsewhere: on HDFS the file manager that
Spark chooses by itself replaces a file in one step, this one does not."""


def session_settings(*, local_disk: bool = False) -> dict[str, str]:
    """Return the settings that steering needs, for the builder of a session on any master.

    ``local_disk``: all checkpoints of the session lie on disks of this machine; batches are shorter
    then.
    """
    return {rule.name: rule.wanted for rule in _RULES} | (
        local_disk_settings() if local_disk else {}
    )


def local_disk_settings() -> dict[str, str]:
    """Return those settings that serve where checkpoints lie on a local disk, steered or not."""
    return {rule.name: rule.wanted for rule in _LOCAL_DISK_RULES}


def state_settings() -> dict[str, str]:
    """Return those of them that say how state is kept, which serve a query nobody steers too."""
    return {
        name: value for name, value in session_settings().items() if name.startswith(_STATE_STORE)
    }


def wrong_among(settings: Mapping[str, str]) -> tuple[WrongSetting, ...]:
    """Return every setting that does not serve; one that is left out has Spark's default.

    Where the master is this machine itself, its checkpoints are taken to be there too.
    """
    here = settings.get(_MASTER, "").startswith("local")
    rules = (*_RULES, *(_LOCAL_DISK_RULES if here else ()))
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


def wrong_settings(spark: SparkSession) -> tuple[WrongSetting, ...]:
    """Return every setting of the running session that does not serve."""
    names = [_MASTER, *(rule.name for rule in (*_RULES, *_LOCAL_DISK_RULES))]
    values = {name: spark.conf.get(name, None) for name in names}
    return wrong_among({name: value for name, value in values.items() if value is not None})
