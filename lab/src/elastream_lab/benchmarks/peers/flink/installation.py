"""Where Flink is: the jars of the package that the environment of its own carries.

``apache-flink-libraries`` is the part of PyPI's ``apache-flink`` that has Flink itself; the other
part is its Python interface, which needs a hundred packages more and has no part in a job that is
written in Java.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elastream.model.errors import ProblemError


@dataclass(frozen=True, slots=True)
class FlinkInstallation:
    """One version of Flink."""

    version: str
    folder: Path
    """With its jars in ``lib``."""

    @property
    def jars(self) -> tuple[Path, ...]:
        """What is on the class path."""
        return tuple(sorted((self.folder / "lib").glob("*.jar")))


def installed_flink(environment: Path) -> FlinkInstallation:
    """Return what the virtual environment has; one line says what to do where it has nothing."""
    for marker in sorted(
        environment.glob("lib/python*/site-packages/pyflink/lib/flink-dist-*.jar")
    ):
        version = marker.name.removeprefix("flink-dist-").removesuffix(".jar")
        return FlinkInstallation(version, marker.parent.parent)
    raise ProblemError("flink", f"{environment} has no Flink; make such a folder with: make flink")
