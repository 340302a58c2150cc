"""The doctor's round: what needs no Spark first, then a session, then what it can tell.

Where something of the first fails, no Java is started: the rest is not tried.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path

from elastream.doctor import machine
from elastream.doctor.cluster import LiveCluster
from elastream.doctor.cluster_managers import cluster_manager
from elastream.doctor.findings import Check, Finding, Report, report_of
from elastream.doctor.program_text import ProgramText
from elastream.doctor.settings import DoctorSettings
from elastream.launch.given import Given, settings_around
from elastream.model.errors import UnsupportedSparkError


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is examined, as far as it is known before."""

    settings: DoctorSettings
    text: ProgramText | None
    given: Given
    environ: Mapping[str, str]

    @property
    def master(self) -> str | None:
        try:
            return self.given.master(self.settings.master, force=False)
        except UnsupportedSparkError:  # the check of the cluster manager says so
            return self.settings.master

    def checks(self) -> tuple[Check, ...]:
        """Return what can be looked at without Spark, in order."""
        from elastream.launch.hooks import is_connect

        given, option, environ = self.given, self.settings.master, self.environ
        return (
            Check("spark", "looking for PySpark", _spark),
            Check("java", "looking for a Java", lambda: machine.java(environ), ("spark",)),
            Check(
                "mode",
                "looking at the mode of the session",
                lambda: machine.mode(connect=is_connect(given.all)),
                ("spark",),
            ),
            Check(
                "cluster manager",
                "looking for the cluster manager",
                lambda: cluster_manager(given, option, environ),
            ),
            Check(
                "settings",
                "reading settings",
                lambda: machine.settings(given, self.master),
                ("spark",),
            ),
            Check("triggers", "looking at triggers", lambda: machine.triggers(self.text)),
        )


def examined(
    settings: DoctorSettings,
    telling: Callable[[Check], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
) -> Report:
    """Look at everything that attaching needs, and tell what was found.

    ``telling`` hears of each check before it is made. What was started has ended, and what was
    written is removed, when this returns.
    """
    subject = _subject(settings, environ)
    first = subject.checks()
    cluster = LiveCluster(settings, subject.given.program, subject.master)
    needed = tuple(check.name for check in first)
    try:
        return report_of((*first, *cluster.checks(needed)), telling)
    finally:
        cluster.close()


def _subject(settings: DoctorSettings, environ: Mapping[str, str]) -> _Subject:
    text = None if settings.app is None else ProgramText.read(settings.app)
    program = {**({} if text is None else text.settings), **settings.conf}
    found = find_spec("pyspark")
    home = Path("none" if found is None or found.origin is None else found.origin).parent
    return _Subject(settings, text, Given(program, settings_around(environ, home)), environ)


def _spark() -> Finding:
    if find_spec("pyspark") is None:
        return machine.spark_version(None)
    import pyspark

    return machine.spark_version(pyspark.__version__, _required())


def _required() -> str:
    """Return the versions of PySpark that the package asks for; empty where nobody knows."""
    try:
        asked = [each.partition(";")[0].strip() for each in requires("elastream") or ()]
    except PackageNotFoundError:  # run from its sources
        return ""
    found = (each.removeprefix("pyspark") for each in asked if each.startswith("pyspark"))
    return next(found, "")
