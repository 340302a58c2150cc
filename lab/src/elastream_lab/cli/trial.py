"""``elastream trial``: random applications with random faults, each held against a computation."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from elastream_lab.campaign.campaign import CampaignSettings
    from elastream_lab.campaign.results import RunResult


_RUNS = typer.Option("--runs", help="How many runs.")
_SEED = typer.Option("--seed", help="Of what is drawn: equal seeds draw equal runs.")
_RUN = typer.Option("--run", help="Only the run of this number, to have it again.")
_JSON = typer.Option("--json", help="Write what came of every run as JSON.")


def trial(
    runs: Annotated[int, _RUNS] = 10,
    seed: Annotated[int, _SEED] = 1,
    run: Annotated[int | None, _RUN] = None,
    json_file: Annotated[Path | None, _JSON] = None,
) -> None:
    """Break random applications at random moments, and check all.

    Each run draws one to three stateful queries, a policy, requests and faults; starts them on real
    executors of this machine; breaks what was drawn; and then looks whether every answer equals a
    computation over all rows, whether a thread, listener, process or file was left, and whether
    the log shows what happened. The exit code is 0 only where nothing was wrong in any run. The
    folder of a run that fails is kept. A run takes one to two minutes; faults of the checkpoint's
    store need root.

      elastream trial --runs 200 --seed 1 --json trial.json
      elastream trial --seed 1 --run 17
    """
    from elastream.cli.exits import BROKEN
    from elastream.cli.run_summaries import checked_target, write_summary
    from elastream_lab.campaign.campaign import CampaignSettings

    settings = CampaignSettings(seed=seed, runs=runs, only=run)
    checked_target("--json", json_file)
    results: list[RunResult] = []
    try:
        _run(settings, results)
    finally:
        write_summary(json_file, summary(settings, results))
    if not all(result.passed for result in results):
        raise typer.Exit(BROKEN)


def summary(settings: CampaignSettings, results: Sequence[RunResult]) -> dict[str, object]:
    """Return what came of the runs, for a file."""
    return {
        "seed": settings.seed,
        "runs": len(results),
        "passed": sum(result.passed for result in results),
        "results": [result.as_json() for result in results],
    }


def table(results: Sequence[RunResult]) -> Table:
    """Return how often each fault was drawn, how often its phase came, and how the runs ended."""
    from rich.table import Table

    made = Table(title="faults, and the runs that had them")
    for name in ("fault", "drawn", "phase came", "in it", "runs that failed"):
        made.add_column(name, justify="left" if name == "fault" else "right")
    drawn: Counter[str] = Counter()
    came: Counter[str] = Counter()
    landed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for result in results:
        for each in result.outcomes:
            drawn[each.fault.kind] += 1
            came[each.fault.kind] += each.reached
            landed[each.fault.kind] += each.landed
            failed[each.fault.kind] += not result.passed
    for kind in sorted(drawn):
        counts = (drawn[kind], came[kind], landed[kind], failed[kind])
        made.add_row(kind, *map(str, counts))
    return made


def _run(settings: CampaignSettings, results: list[RunResult]) -> None:
    from rich.console import Console

    from elastream.cli.quiet import ended_like_by_ctrl_c
    from elastream_lab.campaign.campaign import run_campaign

    console = Console()

    def done(result: RunResult) -> None:
        results.append(result)
        for line in lines(result):
            console.print(line, highlight=False, soft_wrap=True, markup=False)

    # no ``with``: the folders of runs that failed stay, and an empty one goes below
    folder = Path(tempfile.mkdtemp(prefix="elastream-trial-"))
    try:
        with ended_like_by_ctrl_c(), _bar(console, len(settings.numbers)) as (begun, say):
            run_campaign(settings, folder, begun=begun, say=say, done=done)
    finally:
        if not any(folder.iterdir()):
            folder.rmdir()
    console.print(table(results))
    passed = sum(result.passed for result in results)
    console.print(f"{passed} of {len(results)} runs passed", highlight=False)


def lines(result: RunResult) -> Iterator[str]:
    """Yield what is said of one run."""
    shapes = ", ".join(query.shape for query in result.scenario.queries)
    how = "passed" if result.passed else "FAILED"
    yield f"run {result.scenario.number}: {how} in {result.seconds:.0f} s ({shapes})"
    for each in result.outcomes:
        if not each.reached or result.problems:
            yield f"  {each.fault.kind} in {each.fault.phase}: {each.what}"
    for problem in result.problems:
        yield f"  {problem}"
    if result.folder is not None:
        again = f"--seed {result.scenario.seed} --run {result.scenario.number}"
        yield f"  kept in {result.folder}; again with {again}"


@contextmanager
def _bar(
    console: Console, runs: int
) -> Iterator[tuple[Callable[[int], None], Callable[[str], None]]]:
    """Show how far the campaign is, where somebody looks."""
    from rich.progress import Progress

    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("runs", total=runs)
        begun_runs = -1

        def begun(number: int) -> None:
            nonlocal begun_runs
            begun_runs += 1
            progress.update(task, completed=begun_runs, description=f"run {number}")

        def say(line: str) -> None:
            progress.update(task, description=line[:60])

        yield begun, say
