"""Class-data archives: JVMs of the embedded cluster find their classes parsed and verified.

A new executor reads, parses and verifies nine thousand classes before it may hold state. Java can
do that once and map the result. The archive is made of the list of classes that an executor has
loaded (:mod:`.class_training`) and kept in the cache, for JVMs with the same Java and class path.
Java ignores an archive that does not fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from elastream.atomic_io import replacing
from elastream.model.errors import SparkError
from elastream.spark.sessions.spark_home import cache_folder

_SUFFIX: Final = ".jsa"
_MOST_KEPT: Final = 3
"""Archives are large, and every environment has its own: those not used for longest go."""
_TIMEOUT_S: Final = 600.0


def archive_file(
    java: Path, spark_home: Path, environ: Mapping[str, str] = os.environ
) -> Path | None:
    """Return where the archive of this Java and Spark home is or would be.

    ``None`` where there is no place that outlives the session.
    """
    cache = cache_folder(environ)
    if cache is None or spark_home.parent != cache:
        return None
    program, jars = (java / "bin" / "java").resolve(), (spark_home / "jars").resolve()
    seen = [f"{path} {path.stat().st_mtime_ns}" for path in (program, jars)]
    text = "\n".join([str(java), str(spark_home), *seen])
    return cache / f"classes-{hashlib.sha256(text.encode()).hexdigest()[:16]}{_SUFFIX}"


def archive_options(archive: Path | None) -> str:
    """Return the JVM's options to use the archive; none where it is not there."""
    if archive is None or not archive.is_file():
        return ""
    with contextlib.suppress(OSError):  # it only shows which archives are used
        os.utime(archive)
    return f' "-XX:SharedArchiveFile={archive}" -Xlog:cds*=off'


def recording_options(folder: Path) -> str:
    """Return the JVM's options to list the classes it loads in a file of ``folder``."""
    return f' "-XX:DumpLoadedClassList={folder}/%p.classes"'


def make_archive(archive: Path, java: Path, folder: Path, class_path: str, options: str) -> None:
    """Make the archive of the longest list of classes in ``folder``.

    ``class_path`` and ``options`` are those of the JVM that made the list.
    """
    lists = sorted(folder.glob("*.classes"), key=lambda file: file.stat().st_size)
    if not lists:
        raise SparkError("no executor has listed its classes")
    made = folder / archive.name
    files = (f"-XX:SharedClassListFile={lists[-1]}", f"-XX:SharedArchiveFile={made}")
    program = [str(java / "bin" / "java"), *options.split(), "-Xshare:dump", "-Xlog:cds*=off"]
    command = [*program, *files, "-cp", class_path]
    done = subprocess.run(  # noqa: S603 - the Java that Spark runs on
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode or not made.is_file():
        said = " ".join((done.stdout + done.stderr).split())[-300:]
        raise SparkError(f"Java made no archive of classes: {said or 'it said nothing'}")
    with replacing(archive, mode=0o600) as copy:  # the scratch may be on another disk
        shutil.copyfile(made, copy)
    kept = sorted(archive.parent.glob(f"classes-*{_SUFFIX}"), key=lambda file: file.stat().st_mtime)
    for old in kept[:-_MOST_KEPT]:
        old.unlink(missing_ok=True)
