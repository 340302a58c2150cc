"""What the checkpoint of a query shows of its state, from its files alone.

``offsets/N`` is written before batch N, ``commits/N`` after it. The second line of an offset file
is an object whose ``conf`` holds the settings that the query keeps for life, the number of
partitions and the state store among them. ``state/O`` is the state of operator O, a folder for
each partition, and ``state/O/_metadata`` says what operator it is.

A checkpoint on a local disk is read without Java, before anything is started.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from elastream.model.errors import ProblemError, SparkError
from elastream.spark.internals.jvm_values import first_line
from elastream.spark.sessions.settings import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_FIELD: Final = "checkpoint"
_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"


class _LocalFiles:
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, path: str) -> tuple[str, ...]:
        folder = self._root / path
        try:
            return tuple(sorted(each.name for each in folder.iterdir()))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise SparkError(f"{folder} cannot be read: {error.strerror or error}") from error

    def text(self, path: str) -> str:
        try:
            return (self._root / path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SparkError(f"{self._root / path} cannot be read: {error}") from error


class _HadoopFiles:
    """A folder of whatever file system Spark reaches."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        jvm: Any = spark._jvm
        self._to_text = jvm.org.apache.commons.io.IOUtils.toString
        self._path = jvm.org.apache.hadoop.fs.Path
        self._root = self._path(location)
        self._files = self._root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def names(self, path: str) -> tuple[str, ...]:
        folder = self._path(self._root, path) if path else self._root
        if not self._files.exists(folder):
            return ()
        return tuple(sorted(each.getPath().getName() for each in self._files.listStatus(folder)))

    def text(self, path: str) -> str:
        from py4j.protocol import Py4JJavaError

        try:
            stream = self._files.open(self._path(self._root, path))
            try:
                return str(self._to_text(stream, "UTF-8"))
            finally:
                stream.close()
        except Py4JJavaError as error:
            why = first_line(error.java_exception.getMessage())
            raise SparkError(f"{self._root}/{path} cannot be read: {why}") from error


_Files = _LocalFiles | _HadoopFiles


def local_folder(location: str) -> Path | None:
    """Return the folder of this machine that a location names; ``None`` where it is elsewhere."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(location).absolute() if not parts.scheme else None


@dataclass(frozen=True, slots=True)
class StoredOperator:
    """A stateful operator as its checkpoint has it."""

    id: int
    name: str
    """Spark's name of what it does, such as ``stateStoreSave``: an aggregation."""
    folders: frozenset[int]
    """The partitions that have a folder; of an operator without a key that is one."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of a stateful query."""

    location: str
    started: int
    """The last batch that was begun."""
    committed: int
    """The last batch that ended."""
    partitions: int
    """Of the state that was committed last."""
    next_partitions: int
    """Of the batch that was begun last: another number where that is a repartitioning."""
    provider: str
    format_version: int
    """Of the commits."""
    operators: tuple[StoredOperator, ...]

    @property
    def unfinished(self) -> int | None:
        """The partitions of a repartitioning that was begun and not ended."""
        cut = self.started > self.committed and self.next_partitions != self.partitions
        return self.next_partitions if cut else None


def read_checkpoint(location: str, spark: SparkSession | None = None) -> Checkpoint:
    """Return what is there; raises ``ProblemError`` where that is no checkpoint with state.

    One that is not on this machine needs a session.
    """
    folder = local_folder(location)
    files: _Files
    if folder is not None and (spark is None or folder.exists()):
        files = _LocalFiles(folder)
    elif spark is not None:
        files = _HadoopFiles(spark, location)
    else:
        raise SparkError(f"{location} is not on this machine: it takes Spark to read it")
    started, committed = _last(files, "offsets"), _last(files, "commits")
    if not files.names(""):
        raise ProblemError(_FIELD, f"{location} is not there, or is empty")
    if "offsets" not in files.names(""):
        raise ProblemError(_FIELD, f"{location} is not the checkpoint of a streaming query")
    if started is None or committed is None:
        raise ProblemError(_FIELD, f"{location}: no batch of its query has been committed")
    operators = tuple(_operator(files, number) for number in _numbers(files, "state"))
    if not operators:
        raise ProblemError(_FIELD, f"{location} has no state: its query is stateless")
    settings = _settings(files, committed)
    try:
        partitions = int(settings[PARTITIONS])
        following = int(_settings(files, started).get(PARTITIONS, partitions))
        version = int(files.text(f"commits/{committed}").splitlines()[0].strip().lstrip("v"))
    except (KeyError, ValueError, IndexError):
        why = f"{location}: its batch {committed} does not say how many partitions there are"
        raise ProblemError(_FIELD, why) from None
    return Checkpoint(
        location=location,
        started=started,
        committed=committed,
        partitions=partitions,
        next_partitions=following,
        provider=settings.get(_PROVIDER, ""),
        format_version=version,
        operators=operators,
    )


def _numbers(files: _Files, path: str) -> tuple[int, ...]:
    return tuple(sorted(int(name) for name in files.names(path) if name.isdecimal()))


def _last(files: _Files, log: str) -> int | None:
    return max(_numbers(files, log), default=None)


def _settings(files: _Files, batch: int) -> dict[str, str]:
    found = _object(files.text(f"offsets/{batch}"))
    settings = found.get("conf", {})
    return settings if isinstance(settings, dict) else {}


def _operator(files: _Files, number: int) -> StoredOperator:
    folder = f"state/{number}"
    versions = _numbers(files, f"{folder}/_metadata/v2")
    found: Any = {}
    if "metadata" in files.names(f"{folder}/_metadata"):
        found = _object(files.text(f"{folder}/_metadata/metadata"))
    elif versions:
        found = _object(files.text(f"{folder}/_metadata/v2/{versions[-1]}"))
    info = found.get("operatorInfo")
    name = info.get("operatorName") if isinstance(info, dict) else None
    return StoredOperator(number, str(name or ""), frozenset(_numbers(files, folder)))


def _object(text: str) -> dict[str, Any]:
    """Return the object in the second line of a file of Spark's; the first is a version."""
    try:
        found = json.loads(text.splitlines()[1])
    except (IndexError, ValueError) as error:
        raise SparkError(f"a file of the checkpoint cannot be read: {error}") from error
    return found if isinstance(found, dict) else {}
