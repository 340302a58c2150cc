"""The files of a checkpoint, on a disk of this machine or in storage that Hadoop reaches.

A checkpoint on a local disk is read without Java, so that what is wrong with it can be said before
anything is started.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from elastream.model.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CheckpointFiles(Protocol):
    """Reads a folder and what is below it; paths are relative to it."""

    def names(self, path: str) -> tuple[str, ...]:
        """Return what is in a folder; nothing where there is none."""

    def text(self, path: str) -> str:
        """Return what is in a file; raises ``SparkError`` where it cannot be read."""


class LocalFiles:
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, path: str) -> tuple[str, ...]:
        """Return what is in a folder; nothing where there is none."""
        folder = self._root / path
        try:
            return tuple(sorted(each.name for each in folder.iterdir()))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise SparkError(f"{folder} cannot be read: {error.strerror or error}") from error

    def text(self, path: str) -> str:
        """Return what is in a file."""
        try:
            return (self._root / path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SparkError(f"{self._root / path} cannot be read: {error}") from error


class HadoopFiles:
    """A folder of whatever file system Spark reaches."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        jvm: Any = spark._jvm
        self._to_text = jvm.org.apache.commons.io.IOUtils.toString
        self._path = jvm.org.apache.hadoop.fs.Path
        self._root = self._path(location)
        self._files = self._root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def names(self, path: str) -> tuple[str, ...]:
        """Return what is in a folder; nothing where there is none."""
        folder = self._path(self._root, path) if path else self._root
        if not self._files.exists(folder):
            return ()
        return tuple(sorted(each.getPath().getName() for each in self._files.listStatus(folder)))

    def text(self, path: str) -> str:
        """Return what is in a file."""
        from py4j.protocol import Py4JJavaError

        try:
            stream = self._files.open(self._path(self._root, path))
            try:
                return str(self._to_text(stream, "UTF-8"))
            finally:
                stream.close()
        except Py4JJavaError as error:
            why = str(error.java_exception.getMessage()).splitlines()[0]
            raise SparkError(f"{self._root}/{path} cannot be read: {why}") from error


def local_folder(location: str) -> Path | None:
    """Return the folder of this machine that a location names; ``None`` where it is elsewhere."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(location).absolute() if not parts.scheme else None
