"""``elastream handover manage``: the coordinator of paper 002, for several applications.

It reads the load of each application from its decision log, decides by the break-even whether one
of them should lose a query, and reports that. With ``--act`` it carries the decision out: by a
handover, for which it starts the target, or by moving the query's state, for which it asks the
origin.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from elastream.cli.exits import INFEASIBLE
from elastream.cli.terminal import say
from elastream.handover.commands.managed import Managed, load_of, read_managed
from elastream.handover.commands.managed_moves import hand_over, migrate
from elastream.handover.relief import Relief, relief
from elastream.model.checks import positive
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The applications and their marks, as JSON.")
]
Every = Annotated[
    float | None, typer.Option(help="Look again after so many seconds; without it, once.")
]
Act = Annotated[bool, typer.Option("--act", help="Hand the query over, or move it, and watch.")]


def manage(file: File, every: Every = None, act: Act = False) -> None:
    """Plan which query should leave which application; --act does it.

    FILE has applications (each with name, log, cores of an executor, queries with their windows,
    joins and resumes: how each query is started there, doors: where each can be asked), and
    bytes_per_s, restart_s, high and target. Exit code 3 where an application has too much and no
    query fits elsewhere.
    """
    if every is None:
        if isinstance(_look(file, act=act), Infeasible):
            raise typer.Exit(INFEASIBLE)
        return
    positive("every", every)
    while True:
        _look_again(file, act=act)
        time.sleep(every)


def _look_again(file: Path, *, act: bool) -> None:
    """Check once; wait for an application that has only just started."""
    from elastream.handover.loads import NoLoadYetError

    try:
        _look(file, act=act)
    except NoLoadYetError as error:
        say(str(error))


def _look(file: Path, *, act: bool) -> Relief | Infeasible | None:
    applications, marks = read_managed(file)
    loads = [load_of(each) for each in applications]
    outcome = relief(loads, marks)
    if outcome is None:
        busy = ", ".join(f"{each.name} {each.work / each.cores:.0%}" for each in loads)
        say(f"nothing to do: {busy}")
        return None
    say(outcome.reason)
    if act and isinstance(outcome, Relief):
        named = {each.name: each for each in applications}
        _act(file, outcome, named[outcome.origin], named[outcome.target])
    return outcome


def _act(file: Path, outcome: Relief, origin: Managed, target: Managed) -> None:
    query, door = outcome.query, origin.doors.get(outcome.query)
    handed = outcome.how == "hand over"
    start = (target.joins if handed else target.resumes).get(query)
    if start is None:
        where = f"{'joins' if handed else 'resumes'} of {target.name}"
        why = f"says nothing of {query!r}; how is it started there?"
        raise ProblemError(f"{file}: {where}", why)
    if handed:
        hand_over(query, start, door)
        return
    if door is None:
        why = f"says nothing of {query!r}; where can it be asked for its checkpoint?"
        raise ProblemError(f"{file}: doors of {origin.name}", why)
    migrate(query, door, start)
