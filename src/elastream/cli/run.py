"""``elastream run``: an unmodified PySpark program, with its stateful queries attached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from elastream.cli.options import GOAL, PAGE_NAME, PLANNER
from elastream.extras import expect_installed
from elastream.model.errors import ProblemError
from elastream.registry import PROGRAMS, load

_APP = typer.Argument(metavar="APP", help="The program, a Python file.")
_ARGUMENTS = typer.Argument(metavar="ARGUMENTS", help="The program's own.")
_MOST = typer.Option("--max-executors", help="Never more executors than this. Needed.")
_LEAST = typer.Option("--min-executors", help="Never fewer executors than this.")
_MASTER = typer.Option(
    "--master",
    help="The Spark master. Without it the program's own; without that, executors of this machine.",
)
_ADVISE = typer.Option("--advise-only", help="Decide and log, but change nothing.")
_FORCE = typer.Option(
    "--force", help="Override settings of the program with which nothing can be steered."
)
_LOG = typer.Option(
    "--log",
    help="Write every decision as JSON lines, which elastream log reads; - prints them among the "
    "program's output.",
)
_PAGE = typer.Option(
    "--page",
    metavar="PORT",
    help="Show the run in a browser, on this port of this machine (0 takes one that is free); "
    "HOST:PORT lets others look too.",
)
_TOKEN = typer.Option(
    "--page-token",
    metavar="FILE",
    help="Let those who have the token in this file steer the loop through the page; without such "
    "a file, it is made.",
)
_CERTIFICATE = typer.Option(
    "--page-certificate",
    metavar="FILE",
    help="Let the page speak HTTPS, with the certificate and the key in this file (PEM).",
)
_CONTROL = typer.Option(
    "--control",
    metavar="PATH",
    help="Make a local socket here, at which elastream control steers the loop.",
)
_SPANS = typer.Option(
    "--spans",
    help="Send a span for each change and its phases over OTLP; OpenTelemetry's variables OTEL_... "
    "say where to.",
)
_REPARTITION = typer.Option(
    "--repartition",
    help="Stop a query for some seconds, at most once an hour, to give it more partitions where "
    "it has too few (Spark 4.2 and later).",
)
_MEASURE = typer.Option(
    "--measure",
    metavar="FILE",
    help="Steer nothing: measure what each task of the program's queries costs, write it as a "
    "problem for elastream plan resilient, and stop the queries.",
)
_LAUNCHER = typer.Option(
    "--launcher", help="Print the file for spark-submit to run in place of the program, and end."
)


def run(
    app: Annotated[str | None, _APP] = None,
    arguments: Annotated[list[str] | None, _ARGUMENTS] = None,
    max_executors: Annotated[int | None, _MOST] = None,
    min_executors: Annotated[int, _LEAST] = 1,
    master: Annotated[str | None, _MASTER] = None,
    goal: Annotated[str, GOAL] = "utilisation",
    planner: Annotated[str, PLANNER] = "free-step",
    repartition: Annotated[bool, _REPARTITION] = False,
    advise_only: Annotated[bool, _ADVISE] = False,
    force: Annotated[bool, _FORCE] = False,
    log: Annotated[Path | None, _LOG] = None,
    page: Annotated[str | None, _PAGE] = None,
    page_names: Annotated[list[str] | None, PAGE_NAME] = None,
    page_token: Annotated[Path | None, _TOKEN] = None,
    page_certificate: Annotated[Path | None, _CERTIFICATE] = None,
    control: Annotated[Path | None, _CONTROL] = None,
    spans: Annotated[bool, _SPANS] = False,
    measure: Annotated[Path | None, _MEASURE] = None,
    launcher: Annotated[bool, _LAUNCHER] = False,
) -> Callable[[], int] | None:
    """Run a program as it is, with elastic stateful queries.

    The settings that steering needs are put into the session that the program builds, and every
    stateful query it starts takes part. Output, arguments and exit code are the program's own.

      elastream run --max-executors 4 --log decisions.jsonl app.py its arguments
      spark-submit "$(elastream run --launcher)" --max-executors 8 -- app.py its arguments
      elastream run --max-executors 2 --measure problem.json app.py its arguments
    """
    if launcher:
        typer.echo(Path(__file__).with_name("launcher.py"))
        return None
    if app is None:
        raise ProblemError("APP", "is missing; give a program, a Python file")
    if max_executors is None:
        raise ProblemError("max_executors", "is needed: it bounds what the program may cost")
    from elastream.core.policy import Policy
    from elastream.launch.program import Program
    from elastream.launch.settings import RunSettings, goal_given

    program = Program(app, tuple(arguments or ()))
    policy = Policy(
        max_executors=max_executors,
        min_executors=min_executors,
        goal=goal_given(goal, program.folder),
        planner=planner,
        repartition=repartition,
        advise_only=advise_only,
    )
    expect_installed("pyspark")
    there = log
    if log is not None and str(log) != "-":
        there = log.absolute()  # wherever the program goes
    settings = RunSettings(
        policy,
        master=master,
        force=force,
        log=there,
        page=page,
        page_names=tuple(page_names or ()),
        page_token=None if page_token is None else page_token.absolute(),
        page_certificate=None if page_certificate is None else page_certificate.absolute(),
        control=None if control is None else control.absolute(),
        spans=spans,
    )
    if measure is not None:
        from elastream.cli.run_summaries import checked_target

        checked_target("measure", measure)
        run_measured = load(PROGRAMS, "measure", field="measure")
        return lambda: int(run_measured(program, settings, measure.absolute()))
    from elastream.launch.hooks import run_attached

    return lambda: run_attached(program, settings)
