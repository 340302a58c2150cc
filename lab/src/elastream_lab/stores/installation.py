"""Where the parts of object storage are: the S3 server, and Spark's way to it.

``make store`` puts them there. The server is the Versity S3 Gateway, built from its Go module:
objects are plain files of a folder, so that what a checkpoint holds can also be read without asking
the server. Spark reaches it by S3A, Hadoop's file system for S3, which takes some jars: of the AWS
SDK only those parts that S3A uses, since the bundle that is usual has 686 MB.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elastream.model.errors import ProblemError

_SERVER: Final = Path("bin/versitygw")
_JARS: Final = (
    "org.apache.hadoop/hadoop-aws-*.jar",
    "software.amazon.*/*.jar",
    "org.reactivestreams/reactive-streams-*.jar",
)


@dataclass(frozen=True, slots=True)
class StoreParts:
    """What object storage is made of."""

    server: Path
    """The program."""
    jars: tuple[Path, ...]
    """What Spark needs to reach it."""


def installed_store(folder: Path) -> StoreParts:
    """Return what the folder has; one line says what to do where something is missing."""
    server = (folder / _SERVER).resolve()
    jars = [sorted((folder / "jars").resolve().glob(pattern)) for pattern in _JARS]
    if not server.is_file() or not all(jars):
        raise ProblemError(
            "parts", f"{folder} has no S3 server; make such a folder with: make store"
        )
    return StoreParts(server, tuple(jar for found in jars for jar in found))
