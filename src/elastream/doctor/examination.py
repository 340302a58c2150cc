"""The doctor's round: what needs no Spark first, then a session and what only it can show.

Where something of the first fails, no Java is started: the rest is not tried.
"""

from __future__ import annotations

import os
from collections.abc import Callable
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


def examined(settings: DoctorSettings, on_check: Callable[[Check], None]) -> Report:
    """Check everything that attaching needs.

    ``on_check`` is called before each check. What was started has ended, and what was written is
    removed, when this returns.
    """
    from elastream.launch.hooks import is_connect

    environ = os.environ
    text = None if settings.app is None else ProgramText.read(settings.app)
    program = {**({} if text is None else text.settings), **settings.conf}
    found = find_spec("pyspark")
    home = Path("none" if found is None or found.origin is None else found.origin).parent
    given = Given(program, settings_around(environ, home))
    try:
        master = given.master(settings.master, force=False)
    except UnsupportedSparkError:  # the check of the cluster manager says so
        master = settings.master
    needs = ("spark",)
    first = (
        Check("spark", "looking for PySpark", _spark),
        Check("java", "looking for a Java", lambda: machine.java(environ), needs),
        Check(
            "mode",
            "looking at the mode of the session",
            lambda: machine.mode(connect=is_connect(given.all)),
            needs,
        ),
        Check(
            "cluster manager",
            "looking for the cluster manager",
            lambda: cluster_manager(given, settings.master, environ),
        ),
        Check(
            "settings",
            "reading settings",
            lambda: machine.settings(given, master, realtime=machine.is_realtime(text)),
            needs,
        ),
        Check("triggers", "looking at triggers", lambda: machine.triggers(text, _version())),
    )
    cluster = LiveCluster(settings, program, master)
    try:
        return report_of((*first, *cluster.checks(tuple(each.name for each in first))), on_check)
    finally:
        cluster.close()


def _spark() -> Finding:
    found = _version()
    return machine.spark_version(found, "" if found is None else _required())


def _version() -> str | None:
    """Return PySpark's version; ``None`` where it is not installed."""
    if find_spec("pyspark") is None:
        return None
    import pyspark

    return pyspark.__version__


def _required() -> str:
    """Return the versions of PySpark that the package requires; empty where that is not known."""
    try:
        required = [each.partition(";")[0].strip() for each in requires("elastream") or ()]
    except PackageNotFoundError:  # run from its sources
        return ""
    found = (each.removeprefix("pyspark") for each in required if each.startswith("pyspark"))
    return next(found, "")
