"""The parts of the study, joined: measured on executors, read from earlier runs, simulated."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from elastream.model.errors import ElastreamError, ProblemError, SparkError
from elastream_lab.studies.earlier import written_figures
from elastream_lab.studies.figure import Figure
from elastream_lab.studies.machine import MUCH
from elastream_lab.studies.response.costs import Costs
from elastream_lab.studies.response.days import Days
from elastream_lab.studies.response.figures import (
    COSTS,
    RAW,
    cost_table,
    raw_table,
    window_figures,
)
from elastream_lab.studies.response.gamma import gamma_figure
from elastream_lab.studies.response.planning import Planning, aware_planner
from elastream_lab.studies.response.posts import UserPosts
from elastream_lab.studies.response.settings import ResponseStudy
from elastream_lab.studies.response.simulated import run_simulated
from elastream_lab.studies.response.turns import Case, Measured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MADE: Final = "made posts"
_SINCE: Final = ", rows due in the "
Repeats = Mapping[tuple[str, int], int]
"""How many there are, by application and window."""
DaysOf = Callable[[str], Days]
"""What an application goes through on the simulated cluster."""


@dataclass(slots=True)
class Known:
    """What is known of real executors: measured now, or in earlier runs."""

    measured: list[Measured] = field(default_factory=list)
    costs: list[Costs] = field(default_factory=list)
    wrong_ticks: int = 0
    posts: list[str] = field(default_factory=list)
    """What was replayed, in the words of the figures."""

    def of(self, application: str, window: int) -> Costs | None:
        """Return the costs of a case, medians where it was measured several times."""
        found = [c for c in self.costs if (c.application, c.window) == (application, window)]
        if not found:
            return None
        names = ("post_ms", "overhead_ms", "load_ms", "load_ms_per_mib")
        middle = {name: median(getattr(each, name) for each in found) for name in names}
        return replace(found[-1], **middle)


def read_known(paths: Iterable[Path]) -> Known:
    """Return what earlier runs of the study have measured; repeats are numbered on."""
    known = Known()
    for path in paths:
        objects = written_figures(path)
        if RAW not in objects or COSTS not in objects:
            raise ProblemError(str(path), "has no migrations on executors: a live run writes it")
        rows = [Measured.of(row) for row in objects[RAW].get("rows", ())]
        add(known, rows, repeats_in(known))
        known.costs += [Costs.of(row) for row in objects[COSTS].get("rows", ())]
        known.wrong_ticks += not objects[RAW].get("trend_holds", False)
        known.posts.append(str(objects[RAW].get("data", "")).partition(_SINCE)[0])
    return known


def add(known: Known, rows: Sequence[Measured], before: Repeats) -> None:
    """Take migrations in; their repeats come after those of the same case ``before``."""
    known.measured += [
        replace(each, repeat=each.repeat + before.get((each.application, each.window), 0))
        for each in rows
    ]


def repeats_in(known: Known) -> Repeats:
    """Return how many repeats of each case are known."""
    found: dict[tuple[str, int], int] = {}
    for each in known.measured:
        case = (each.application, each.window)
        found[case] = max(found.get(case, 0), each.repeat)
    return found


def live_figures(
    study: ResponseStudy,
    known: Known,
    session: Callable[[], AbstractContextManager[SparkSession]],
    say: Callable[[str], None],
    posts: UserPosts | None = None,
) -> tuple[Figure, ...]:
    """Measure on executors, next to what is known already; on made posts where none are given.

    What a query has shown is known as soon as it has ended, whatever becomes of the others.
    """
    from elastream_lab.studies.response.live import run_live

    before = repeats_in(known)
    known.posts.append(MADE if posts is None else posts.description)
    recording = None if posts is None else posts.recording
    with session() as spark:
        for repeat in range(1, study.repeats + 1):
            for application in study.applications:
                for window in study.windows:
                    case = Case(application, window, repeat)

                    def report(what: str, case: Case = case) -> None:
                        say(f"{case.application}, window {case.window}, {case.repeat}: {what}")

                    try:
                        done = run_live(study, spark, case, report, recording)
                    except ElastreamError as error:  # the others go on
                        report(f"failed: {error}")
                        continue
                    add(known, done.measured, before)
                    known.costs.append(done.costs)
                    known.wrong_ticks += done.wrong_ticks
    if not known.measured:
        raise SparkError("no migration was measured")
    return known_figures(study, known)


def known_figures(study: ResponseStudy, known: Known) -> tuple[Figure, ...]:
    """Return the figures of what was measured on executors."""
    seconds = sorted({each.seconds for each in known.measured})
    spans = " and ".join(f"{each:g} s" for each in seconds)
    sizes = sorted({each.after for each in known.measured} | set(study.sizes))
    data = (
        f"{'; '.join(dict.fromkeys(known.posts))}{_SINCE}{spans} after a migration was asked for, "
        f"{sizes[0]} to {sizes[-1]} executors of one machine hold state{_load(known)}"
    )
    return (
        *window_figures(known.measured, "live", data),
        raw_table(known.measured, known.wrong_ticks, data),
        cost_table(known.costs, data),
    )


def _load(known: Known) -> str:
    """Return what else the machine had to do; about as many as it has cores is our own."""
    loads = [each.load for each in known.measured if each.load is not None]
    if not loads:
        return ""
    cores = os.cpu_count() or 1
    report = f", load {min(loads):.0f} to {max(loads):.0f} on {cores} cores"
    if disturbed := sum((each.stolen or 0.0) > MUCH for each in known.measured):
        many = len(known.measured)
        report += f"; around {disturbed} of {many} migrations the host kept more than {MUCH:.0%}"
    return report


def simulated_figures(
    study: ResponseStudy, known: Known, days_of: DaysOf, say: Callable[[str], None]
) -> tuple[Figure, ...]:
    """Return the figures at the papers' sizes, with the costs that are known."""
    measured: list[Measured] = []
    for application in study.applications:
        days = days_of(application)
        plannings = _plannings(study, days)
        for window in study.windows:
            costs = _needed(known, application, window)
            say(f"simulated: {application}, window {window}")
            for repeat in range(1, study.repeats + 1):
                for planning in plannings:
                    seeded = replace(planning, seed=study.seed + repeat)
                    measured += run_simulated(study, costs, days, seeded, repeat)
    return window_figures(measured, "simulated", _data(study, days))


def waits_by_gamma(study: ResponseStudy, known: Known, days_of: DaysOf) -> tuple[Figure, ...]:
    """Return the figure of the discount, for the last application and the largest window."""
    application = study.applications[-1]
    days = days_of(application)
    costs = _needed(known, application, max(study.windows))
    return (gamma_figure(study, costs, days, _data(study, days)),)


def expect_costs(study: ResponseStudy, known: Known) -> None:
    """Refuse to simulate what no one has measured."""
    for application in study.applications:
        for window in study.windows:
            _needed(known, application, window)


def _data(study: ResponseStudy, days: Days) -> str:
    return (
        f"{days.description}, simulated, {days.sizes[0]} to {days.sizes[-1]} nodes, "
        f"{len(days.loads.work)} tasks, {study.migrations} migrations, {study.span}; costs as "
        "measured on executors"
    )


def _needed(known: Known, application: str, window: int) -> Costs:
    costs = known.of(application, window)
    if costs is None:
        why = f"no one has measured what {application} cost at window {window}"
        raise ProblemError("measured", f"{why}: run `figures` live too, or give a file that has it")
    return costs


def _plannings(study: ResponseStudy, days: Days) -> list[Planning]:
    aware = None
    if "transition" in study.planners:
        loads = days.loads
        chain = days.chain(study.gamma)
        aware = aware_planner(loads.work, loads.state_parts, study.tau, chain)
    return [Planning(name, study.tau, aware=aware) for name in study.planners]
