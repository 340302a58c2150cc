"""The cache of this machine, and in it a Spark home: links to the installed one.

Standalone workers write into the Spark home; a folder of links keeps the installation clean and
lets it be read-only. All sessions share one, because its path is in the class path of every JVM,
and an archive of classes (:mod:`.class_archive`) holds for one class path. Workers write there into
folders of their application, whose names end with a token that no other session has.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_WORK: Final = "work"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder for what is made once on a machine and used by every session.

    It is made where it is missing; ``None`` where it cannot be written.
    """
    cache = environ.get("XDG_CACHE_HOME")
    folder = (Path(cache) if cache else Path.home() / ".cache") / "elastream"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def spark_home(scratch: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the shared home, or one under ``scratch`` where nothing shared can be written."""
    import pyspark

    installed = Path(pyspark.__file__).parent
    cache = cache_folder(environ)
    if cache is None:
        home = scratch / "spark"
        _link(installed, home)
        return home
    text = f"{installed}\n{pyspark.__version__}"
    home = cache / f"spark-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if not home.is_dir():
        made = Path(tempfile.mkdtemp(dir=cache)) / "spark"
        _link(installed, made)
        with contextlib.suppress(OSError):  # another session was quicker
            made.rename(home)
        shutil.rmtree(made.parent)
    return home


def application_pattern(token: str) -> str:
    """Return Spark's pattern for the ids of applications, which then end with ``token``.

    By itself Spark names them by the second they began in, so that two may be named alike.
    """
    return f"app-%s-%04d-{token}"


def remove_applications(home: Path, token: str) -> None:
    """Remove what the workers of the session with this token wrote."""
    for folder in (home / _WORK).glob(f"app-*-{token}"):
        shutil.rmtree(folder, ignore_errors=True)


def _link(installed: Path, home: Path) -> None:
    home.mkdir()
    for entry in installed.iterdir():
        if entry.name != _WORK:
            (home / entry.name).symlink_to(entry)
