"""``elastream bench failure``: the same stream with an executor killed, under every way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from elastream_lab.cli.state_sizes import STATE, states_of
from elastream_lab.cli.trials import run_trials

if TYPE_CHECKING:
    from rich.table import Table

    from elastream_lab.benchmarks.failure.loss import LossResult
    from elastream_lab.harness.response_time import Spread


_TABLE_WIDTH: Final = 160
"""What the table needs, also where the output is not a terminal."""
_WAYS = typer.Option(
    "--ways", help="Which ones, with commas between: stock, elastream, standbys. Left out: all."
)
_EXECUTORS = typer.Option("--executors", help="How many there are until one is killed.")
_HOT = typer.Option("--hot-share", help="Which part of the state the stream updates, 0 to 1.")
_REPEATS = typer.Option("--repeats", help="How often each way runs.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")
_PICTURE = typer.Option("--picture", help="Draw the response times: .png, .svg or .pdf.")


def failure(
    state: Annotated[str, STATE] = "64M",
    ways: Annotated[str | None, _WAYS] = None,
    executors: Annotated[int, _EXECUTORS] = 3,
    hot_share: Annotated[float, _HOT] = 0.2,
    repeats: Annotated[int, _REPEATS] = 1,
    trigger_s: Annotated[float, typer.Option("--trigger-s")] = 1.0,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """Kill an executor of a running stream; show what its rows wait.

    The same steady stream loses the executor with most state under every way to live with that, and
    every word's count is checked at the end of each run. The loss is measured from the kill until
    the query is steady again. The exit code is 0 only where all runs ended and were exact. A run
    takes two to three minutes. Only executors that the command has started itself are killed.

      elastream bench failure --json failure.json --picture failure.png
      elastream bench failure --state 512M --ways stock,standbys --repeats 3
    """
    from elastream.cli.run_summaries import checked_picture, checked_target
    from elastream_lab.benchmarks.failure.bench import run_failures
    from elastream_lab.benchmarks.failure.picture import draw_losses
    from elastream_lab.benchmarks.failure.settings import WAYS, FailureSettings

    names = WAYS if ways is None else tuple(filter(None, map(str.strip, ways.split(","))))
    settings = FailureSettings(
        states=states_of(state),
        ways=names,
        executors=executors,
        hot_share=hot_share,
        repeats=repeats,
        trigger_s=trigger_s,
    )
    checked_picture("--picture", picture)
    checked_target("--json", json_file)

    def run(
        say: Callable[[str], None],
        done: Callable[[LossResult], None],
        failed: Callable[[str], None],
    ) -> None:
        run_failures(settings, say=say, done=done, failed=failed)

    def draw(results: Sequence[LossResult]) -> None:
        if picture is not None:
            draw_losses(results, picture)

    run_trials(
        run,
        settings.as_json(),
        table=table,
        width=_TABLE_WIDTH,
        note=f"a word cost {settings.stream.word_us:g} µs, slept in place of work; the state is "
        f"ballast, and the stream updates {settings.hot_share:.0%} of it",
        json_file=json_file,
        draw=draw,
    )


def table(results: Sequence[LossResult]) -> Table:
    """Return the figures for people, a row for each way.

    Where a way ran more than once a figure is the median, and in brackets its range.
    """
    from rich.table import Table

    from elastream_lab.benchmarks.migration.repeats import grouped

    made = Table(
        title="from the kill of an executor until the query was steady again; seconds; "
        "rows wait: median / p99, of the change also the worst"
    )
    for name in ("state", "way"):
        made.add_column(name)
    for name in (
        "longest\ngap",
        "noticed\nafter",
        "replaced\nafter",
        "steady\nafter",
        "caught\nup after",
        "steady\nbatch",
        "added\np99",
        "rows wait\nsteady",
        "rows wait\nchange",
        "rows\nlate",
        "MB\nlost",
        "MB\nloaded",
        "exact",
    ):
        made.add_column(name, justify="right", overflow="fold")
    for repeats in grouped(results, lambda result: result.case).values():
        made.add_row(*_cells(repeats))
    return made


def _cells(repeats: Sequence[LossResult]) -> tuple[str, ...]:
    from elastream_lab.benchmarks.migration.repeats import over

    every, losses = [result.figures for result in repeats], [result.loss for result in repeats]

    def cell(values: Iterable[float | None], digits: int = 1, unit: float = 1000.0) -> str:
        found = over(None if value is None else value / unit for value in values)
        return "-" if found is None else found.text(digits)

    def waits(spreads: Sequence[Spread | None], *names: str) -> str:
        return "/".join(
            cell([None if s is None else getattr(s, name) for s in spreads]) for name in names
        )

    settled = cell((f.asked_to_settled_s for f in every), unit=1.0)
    return (
        repeats[0].state,
        repeats[0].way,
        cell((f.longest_gap_ms for f in every), digits=2),
        cell((loss.detection_ms for loss in losses), digits=2),
        cell((loss.replaced_s for loss in losses), unit=1.0),
        settled if all(f.steady_again for f in every) else f"{settled} not steady",
        cell((result.caught_up_s for result in repeats), unit=1.0),
        cell((f.steady_batch_ms for f in every), digits=2),
        cell((f.added_p99_ms for f in every), digits=2),
        waits([f.steady for f in every], "median", "p99"),
        waits([f.change for f in every], "median", "p99", "worst"),
        cell((f.rows_late for f in every), digits=0, unit=1.0),
        cell((loss.state_bytes for loss in losses), unit=1e6),
        cell((f.bytes_loaded_in_batches for f in every), unit=1e6),
        "yes" if all(result.exact for result in repeats) else "NO",
    )
