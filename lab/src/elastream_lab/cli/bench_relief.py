"""``elastream bench relief``: what a change of executors brings, predicted and ideal next to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from elastream_lab.cli.trials import run_trials

if TYPE_CHECKING:
    from rich.table import Table

    from elastream_lab.benchmarks.relief.figures import ReliefResult


_TABLE_WIDTH: Final = 150
"""What the table needs, also where the output is not a terminal."""
_SHAPES = typer.Option(
    "--shape",
    help="Which ones, with commas between: one-stage, two-stages, join-then-count, two-queries, "
    "skewed, multi-core, fractional. Left out: all.",
)
_CHANGES = typer.Option(
    "--change",
    help="BEFORE-AFTER executors, with commas between, in the order in which a stream takes them.",
)
_PLANNER = typer.Option("--planner", help="The planner that chooses what moves.")
_TAU = typer.Option("--tau", help="How uneven a plan may be.")
_ROW = typer.Option("--row-ms", help="Milliseconds that a row costs in every stage, slept.")
_BATCHES = typer.Option("--batches", help="Steady batches before and after a change that count.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")


def relief(
    shape: Annotated[str | None, _SHAPES] = None,
    change: Annotated[str, _CHANGES] = "2-4,4-2,2-3",
    planner: Annotated[str, _PLANNER] = "free-step",
    tau: Annotated[float, _TAU] = 0.1,
    row_ms: Annotated[float, _ROW] = 20.0,
    batches: Annotated[int, _BATCHES] = 6,
    json_file: Annotated[Path | None, _JSON] = None,
) -> None:
    """Show how long batches take after a change of executors.

    Queries with one stage, two stages, a join, skew, and executors with several slots change their
    number of executors while they run. The batch after each change is shown next to what was
    predicted, and to the ideal: fixed cost, and work spread evenly over all slots. Every batch has
    the same rows; a row costs time that is slept. Every count is checked at the end. The exit code
    is 0 only where all were exact. A shape takes two to three minutes.

      elastream bench relief --json relief.json
      elastream bench relief --shape two-stages --change 2-4
    """
    from elastream.cli.run_summaries import checked_target
    from elastream.core.policy import planner_named
    from elastream_lab.benchmarks.relief.run import run_relief
    from elastream_lab.benchmarks.relief.settings import ReliefSettings
    from elastream_lab.benchmarks.relief.shapes import SHAPES

    names = (
        tuple(SHAPES) if shape is None else tuple(filter(None, map(str.strip, shape.split(","))))
    )
    settings = ReliefSettings(
        shape=names,
        change=_changes(change),
        planner=planner,
        tau=tau,
        row_ms=row_ms,
        batches=batches,
    )
    planner_named(planner)
    checked_target("--json", json_file)

    def run(
        say: Callable[[str], None],
        done: Callable[[ReliefResult], None],
        failed: Callable[[str], None],
    ) -> None:
        run_relief(settings, say=say, done=done, failed=failed)

    run_trials(
        run,
        settings.as_json(),
        table=table,
        width=_TABLE_WIDTH,
        note=f"a row cost {settings.row_ms:g} ms in every stage, slept in place of work; predicted "
        "by elastream, or where marked * by the same model from the batches before",
        json_file=json_file,
        draw=lambda _: None,
    )


def _changes(text: str) -> tuple[tuple[int, int], ...]:
    from elastream.model.checks import abbreviate
    from elastream.model.errors import ProblemError

    changes = []
    for part in filter(None, map(str.strip, text.split(","))):
        numbers = re.fullmatch(r"(\d{1,2})-(\d{1,2})", part)
        if numbers is None:
            raise ProblemError("--change", f"{abbreviate(part)} is not BEFORE-AFTER, as 2-4")
        changes.append((int(numbers[1]), int(numbers[2])))
    return tuple(changes)


def table(results: Sequence[ReliefResult]) -> Table:
    """Return the figures for people, a row for each change and query."""
    from rich.table import Table

    made = Table(title="a batch, in ms, before and after a change of executors")
    for name in ("query", "change"):
        made.add_column(name)
    for name in (
        "slots",
        "before",
        "predicted",
        "measured",
        "ideal",
        "measured/\npredicted",
        "measured/\nideal",
        "simulated",
        "stages/\neven",
        "kB\nmoved",
        "without\nstate",
        "seconds",
        "load",
        "exact",
    ):
        made.add_column(name, justify="right", overflow="fold")
    for each in results:
        ms, mark = each.batch_ms, "" if each.predicted_by == "elastream" else "*"
        made.add_row(
            each.query,
            f"{each.change[0]} to {each.change[1]}",
            str(each.slots),
            f"{ms.before:.0f}",
            f"{ms.predicted:.0f}{mark}",
            f"{ms.measured:.0f}",
            f"{ms.ideal:.0f}",
            f"{ms.measured / ms.predicted:.2f}",
            f"{ms.measured / ms.ideal:.2f}",
            f"{each.simulated_ms:.0f}",
            f"{each.evenness:.2f}",
            f"{each.state_bytes_moved / 1000:.0f}",
            str(each.executors_without_state),
            f"{each.seconds:.0f}",
            f"{each.machine_load[0]:.0f}-{each.machine_load[1]:.0f}",
            "yes" if each.exact else "NO",
        )
    return made
