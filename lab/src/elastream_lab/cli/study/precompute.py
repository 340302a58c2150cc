"""``elastream study precompute``: all partitions valued on Spark, and a pool next to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from elastream.model.checks import non_negative
from elastream.model.errors import ProblemError

_INPUT = typer.Option(
    "--input", help="A problem as for `elastream values build`, in place of made tasks."
)
_TASKS = typer.Option("--tasks", min=8, help="Made tasks.")
_TAUS = typer.Option(
    "--taus", help="Thresholds, with commas between; left out with --input: that of the file."
)
_CORES = typer.Option("--cores", help="Cores of this machine that Spark has, with commas between.")
_MOST = typer.Option("--most", min=1, help="More partitions than these are only counted.")
_POOL = typer.Option("--pool", min=50, help="Most partitions of the pool.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")
_PICTURE = typer.Option("--picture", help="Draw the figures: .png, .svg or .pdf.")
_MADE_TAUS = "0.19,0.2,0.21"


def precompute(
    input: Annotated[Path | None, _INPUT] = None,  # noqa: A002 - the option's name
    tasks: Annotated[int, _TASKS] = 48,
    taus: Annotated[str | None, _TAUS] = None,
    cores: Annotated[str, _CORES] = "1,2",
    most: Annotated[int, _MOST] = 20_000,
    pool: Annotated[int, _POOL] = 2000,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """Value all partitions on Spark, by cores and by number.

    Papers 000, figure 11, and 001, figure 14.

    Every partition that serves a size of the chain, exact values, in one process and on Spark with
    some cores; next to it a pool, and how far its values are above the exact ones. A minute as it
    stands; 300,000 partitions take some minutes of a core.

      elastream study precompute --picture precompute.png
      elastream study precompute --taus 0.19,0.21,0.24,0.28 --most 400000
      elastream study precompute --input problem.json --cores 1,2,4
    """
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.foresight.commands.values import projection_problem_of
    from elastream_lab.benchmarks.transition import skewed_problem
    from elastream_lab.cli.study.output import tell
    from elastream_lab.studies.precompute.study import PrecomputeStudy, precompute_figures

    if input is None:
        thresholds = numbers_of("--taus", taus or _MADE_TAUS)
        problems = [skewed_problem(tasks, tau) for tau in thresholds]
        data = f"{tasks} made tasks, skewed, a random chain of 8 to 16 nodes"
    else:
        given = projection_problem_of(input)
        thresholds = [float(given.tau)] if taus is None else numbers_of("--taus", taus)
        problems = [replace(given, tau=tau) for tau in thresholds]
        data = f"{len(given.work)} tasks of {input}"
    named = tuple(int(number) for number in numbers_of("--cores", cores))
    study = PrecomputeStudy(tuple(problems), data, named, most, pool)
    with ended_like_by_ctrl_c(), java_kept_quiet():
        makers = [lambda: precompute_figures(study, typer.echo)]
        tell("precompute", makers, json_file, picture)


def numbers_of(option: str, text: str) -> list[float]:
    """Return the numbers of a list with commas, rising, each once."""
    try:
        found = {float(non_negative(option, float(part))) for part in text.split(",")}
    except ValueError:
        raise ProblemError(option, f"{text!r} must be a list of numbers such as 0.2,0.4") from None
    return sorted(found)
