"""``elastream bench sweep``: random simulated applications, and what a goal makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table


_NUMBER = typer.Option("--applications", help="How many of each kind.")
_SEED = typer.Option("--seed", help="The first; each application has the next.")
_GOAL = typer.Option(
    "--goal",
    help="utilisation, keep-triggers, look-ahead; on small applications combined, resilient, "
    "replication.",
)
_JSON = typer.Option("--json", help="Write the figures, and each faulty application, as JSON.")


def sweep(
    applications: Annotated[int, _NUMBER] = 1000,
    seed: Annotated[int, _SEED] = 0,
    goal: Annotated[str, _GOAL] = "utilisation",
    json_file: Annotated[Path | None, _JSON] = None,
) -> None:
    """Run a goal on random simulated applications, count faults.

    One to four queries of one to three operators, with skew, on 2 to 64 executors: some whose load
    grows, and some whose load is steady. The exit code is 0 only where there is no fault. A
    thousand of each kind take about an hour.

      elastream bench sweep --json sweep.json
      elastream bench sweep --applications 1 --seed 17
    """
    from rich.console import Console

    from elastream.cli.exits import BROKEN
    from elastream.cli.quiet import ended_like_by_ctrl_c
    from elastream.cli.run_summaries import checked_target, failure_written, write_summary
    from elastream.model.checks import count
    from elastream.model.errors import ProblemError
    from elastream_lab.benchmarks.sweep.runs import GOALS, scale_outs, steady, summary

    count("applications", applications, least=1)
    count("seed", seed)
    if goal not in GOALS:
        raise ProblemError("goal", f"{goal!r} is not one of {', '.join(GOALS)}")
    checked_target("--json", json_file)
    cases: dict[str, Any] = {}

    def report(error: str | None = None) -> dict[str, object]:
        found: dict[str, object] = {"goal": goal, "seed": seed, "cases": cases}
        return found if error is None else {**found, "error": error}

    with failure_written(json_file, report), ended_like_by_ctrl_c():
        cases["load grows"] = summary(list(scale_outs(goal, seed, applications)))
        cases["load is steady"] = summary(list(steady(goal, seed, applications)))
    Console().print(_table(goal, cases))
    write_summary(json_file, report())
    if any(case["faulty"] for case in cases.values()):
        raise typer.Exit(BROKEN)


def _table(goal: str, cases: Mapping[str, Any]) -> Table:
    from rich.table import Table

    made = Table(title=f"random simulated applications, {goal}")
    made.add_column("")
    for case in cases:
        made.add_column(case, justify="right")
    counts = [{**case, **case["faults"]} for case in cases.values()]
    for name in ("applications", "scaled_out", "scaled_in", *next(iter(cases.values()))["faults"]):
        made.add_row(name.replace("_", " "), *(str(each[name]) for each in counts))
    return made
