"""Jars of others that component tests run on: fetched by name, kept by checksum.

``parts.toml`` says what is wanted, set by set; ``parts.lock`` has every jar that this comes to,
with its checksum. :func:`fetch` gets those that are missing, with the Ivy that Spark brings, from
where Ivy looks by itself; a file named by ``IVY_SETTINGS`` shows it otherwise. Tests only read what
is there: :func:`jars`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from elastream.spark.sessions.java import java_home

__all__ = ["FOLDER", "Jar", "classpath", "fetch", "jars", "lock", "missing", "spark_jars"]

FOLDER = Path(__file__).parents[2] / ".components"
"""What is fetched lies here; git does not see it."""
_WANTED = Path(__file__).with_name("parts.toml")
_LOCK = Path(__file__).with_name("parts.lock")


@dataclass(frozen=True, slots=True, order=True)
class Jar:
    """A jar by name, and where it lies once it is fetched."""

    group: str
    artifact: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @staticmethod
    def of(name: str) -> Jar:
        """Return the jar called ``group:artifact:version``."""
        group, artifact, version = name.split(":")
        return Jar(group, artifact, version)

    @property
    def path(self) -> Path:
        """Where it lies."""
        return FOLDER / "jars" / self.group / f"{self.artifact}-{self.version}.jar"


def jars(part: str) -> tuple[Path, ...]:
    """Return the jars of a set, which are there."""
    return tuple(jar.path for jar in _locked()[part])


def classpath(*parts: str) -> str:
    """Return the class path of some sets."""
    return os.pathsep.join(str(path) for part in parts for path in jars(part))


def spark_jars(*parts: str) -> dict[str, str]:
    """Return the setting that gives some sets to a Spark session, driver and executors."""
    return {"spark.jars": ",".join(f"file://{path}" for part in parts for path in jars(part))}


def missing(*parts: str) -> str | None:
    """Return what is not fetched; ``None`` where nothing is missing."""
    absent = [part for part in parts if not all(path.exists() for path in jars(part))]
    return f"{' and '.join(absent)} not fetched; make test-components does that" if absent else None


def fetch() -> None:
    """Get every jar of the lock that is not there, and refuse one that is not what was locked."""
    for locked in _locked().values():  # set by set: of two versions in one, Ivy keeps the newer
        absent = [jar for jar in locked if not jar.path.exists()]
        if absent:
            _fetch(absent, locked)


def _fetch(absent: Sequence[Jar], locked: Mapping[Jar, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for jar, path in _resolved(absent, Path(folder)).items():
            if _digest(path) != locked[jar]:
                raise SystemExit(f"{jar} is not what was locked: its SHA-256 is {_digest(path)}")
            jar.path.parent.mkdir(parents=True, exist_ok=True)
            # whole or not at all, also where the folder is on another disk
            shutil.copy(path, jar.path.with_suffix(".part"))
            jar.path.with_suffix(".part").replace(jar.path)
    still = [str(jar) for jar in absent if not jar.path.exists()]
    if still:
        raise SystemExit(f"not to be had: {', '.join(still)}")


def lock() -> None:
    """Write the lock again: everything that the wanted parts need, with its checksum."""
    lines = ["# Written by `make lock-components` from parts.toml."]
    for part, wanted in tomllib.loads(_WANTED.read_text()).items():
        lines.append(f"\n[{part}]")
        with tempfile.TemporaryDirectory() as folder:
            resolved = _resolved(
                (Jar.of(name) for name in wanted.get("alone", ())),
                Path(folder),
                whole=(Jar.of(name) for name in wanted.get("whole", ())),
            )
            lines += [f'"{jar}" = "{_digest(path)}"' for jar, path in sorted(resolved.items())]
    _LOCK.write_text("\n".join(lines) + "\n")


def _locked() -> dict[str, dict[Jar, str]]:
    """Return the checksum of every jar, set by set."""
    sets = tomllib.loads(_LOCK.read_text())
    return {
        part: {Jar.of(name): digest for name, digest in contents.items()}
        for part, contents in sets.items()
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _resolved(alone: Iterable[Jar], folder: Path, whole: Iterable[Jar] = ()) -> dict[Jar, Path]:
    """Let Ivy put jars into a folder, ``whole`` with what they need; return where each lies."""
    import pyspark

    described = folder / "ivy.xml"
    described.write_text(_description(alone, whole))
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    command = [java_home() / "bin" / "java", "-jar", ivy, "-warn", "-novalidate"]
    command += ["-ivy", described, "-cache", folder / "cache", "-types", "jar", "bundle"]
    command += ["-confs", "default"]
    command += ["-retrieve", folder / "got/[organisation]/[module]/[revision]/[artifact].[ext]"]
    if settings := os.environ.get("IVY_SETTINGS"):
        command += ["-settings", settings]
    ivy_said = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ivy_said.returncode:
        raise SystemExit(f"{ivy_said.stdout}{ivy_said.stderr}not everything could be fetched")
    got = folder / "got"
    return {Jar(*path.relative_to(got).parts[:3]): path for path in got.glob("*/*/*/*.jar")}


def _description(alone: Iterable[Jar], whole: Iterable[Jar]) -> str:
    """Return the file that tells Ivy what to get."""
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)}"
        f" rev={quoteattr(jar.version)} conf='default' transitive='{transitive}'/>"
        for jars, transitive in ((alone, "false"), (whole, "true"))
        for jar in jars
    )
    return (
        "<ivy-module version='2.0'><info organisation='elastream' module='components'/>"
        "<configurations><conf name='default'/></configurations>"
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


if __name__ == "__main__":
    lock() if sys.argv[1:] == ["lock"] else fetch()
