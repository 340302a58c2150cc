"""What a program's session would be built with, and what steering adds to it or refuses.

A setting comes from the program itself (its builder, its ``SparkConf``) or from around it:
``spark-defaults.conf``, ``PYSPARK_SUBMIT_ARGS``, ``MASTER``, the options of ``spark-submit``. The
program's own come first, as in Spark. Before a JVM runs these files and variables are read here;
afterwards the JVM is asked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elastream.model.errors import UnsupportedSparkError
from elastream.spark.sessions.settings import WrongSetting, session_settings, wrong_among

MASTER: Final = "spark.master"
_OPTIONS: Final = {
    "--master": MASTER,
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": "spark.executor.instances",
}
"""Options of ``spark-submit`` that are settings."""
_PROPERTY: Final = re.compile(r"\s*([^\s=:#!][^\s=:]*)\s*[=:\s]\s*(.*?)\s*")


@dataclass(frozen=True, slots=True)
class Given:
    """The settings of a session that is about to be built."""

    program: Mapping[str, str]
    """Those that the program makes itself."""
    around: Mapping[str, str]
    """Those that it finds."""

    @property
    def all(self) -> dict[str, str]:
        """Return what Spark would take."""
        return {**self.around, **self.program}

    def contradictions(self) -> tuple[WrongSetting, ...]:
        """Return what is set against a setting that steering cannot do without."""
        given = self.all
        return tuple(
            wrong for wrong in wrong_among(given) if wrong.required and wrong.name in given
        )

    def needed(self, *, force: bool, master: str | None = None) -> dict[str, str]:
        """Return what is to be added, with the required ones that ``force`` overrides.

        ``master``: where it shall run, if that is not among the settings.
        """
        wrong = self.contradictions()
        if wrong and not force:
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            raise UnsupportedSparkError(
                f"{wrong[0]}{more}; leave it out, or override it with --force"
            )
        given, names = self.all, {each.name for each in wrong}
        return {
            name: value
            for name, value in session_settings(master=master or given.get(MASTER)).items()
            if name not in given or name in names
        }

    def master(self, option: str | None, *, force: bool) -> str | None:
        """Return the master to run on; ``None`` for a cluster of our own on this machine."""
        own = self.program.get(MASTER)
        if option and own and own != option and not force:
            raise UnsupportedSparkError(
                f"the program sets {MASTER} to {own}, against --master {option}; leave one of "
                "them out, or override the program's with --force"
            )
        master = option or own or self.around.get(MASTER)
        if master is None or not has_no_executors(master):
            return master
        if force:
            return None
        raise UnsupportedSparkError(
            f"{MASTER} is {master}, one process without executors that could come or go; leave it "
            "out, or override it with --force: then there are executors of this machine"
        )


def has_no_executors(master: str) -> bool:
    """Return whether the master is the driver's own process."""
    return master == "local" or master.startswith("local[")


def settings_around(environ: Mapping[str, str], spark_home: Path) -> dict[str, str]:
    """Return what ``spark-submit``, which starts the driver's JVM, will find by itself."""
    home = Path(environ.get("SPARK_HOME") or spark_home)
    folder = Path(environ.get("SPARK_CONF_DIR") or home / "conf")
    found = {MASTER: environ["MASTER"]} if environ.get("MASTER") else {}
    found |= _properties(folder / "spark-defaults.conf")
    return found | _submit_options(environ.get("PYSPARK_SUBMIT_ARGS", ""))


def _properties(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:  # most have none
        return {}
    matches = (_PROPERTY.fullmatch(line) for line in lines)
    found = {match[1]: match[2] for match in matches if match is not None}
    return {name: value for name, value in found.items() if name.startswith("spark.")}


def _submit_options(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError:  # Spark says so itself
        return {}
    found: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], ""], strict=False):
        option, equals, attached = word.partition("=")
        value = attached if equals else following
        if option in ("--conf", "-c"):
            name, _, value = value.partition("=")
            found[name] = value
        elif option in _OPTIONS:
            found[_OPTIONS[option]] = value
    return found
