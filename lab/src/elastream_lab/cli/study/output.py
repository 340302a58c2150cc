"""How every study shows its figures: a table and a verdict as each is made, JSON at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.cli.run_summaries import (
    checked_picture,
    checked_target,
    failure_written,
    write_summary,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from elastream_lab.studies.figure import Figure


_WIDEST: Final = 1000
"""Columns of a screen on which every table has room."""


@contextmanager
def written(study: str, json_file: Path | None) -> Iterator[list[Figure]]:
    """Give a list for the figures; write it at the end, also of a run that failed.

    At the end stands what else the machine had to do meanwhile.
    """
    import typer

    from elastream_lab.studies.machine import machine_times
    from elastream_lab.studies.machine import report as machine_report

    made: list[Figure] = []
    began = machine_times()

    def report() -> list[dict[str, object]]:
        return [figure.as_json(study) for figure in made]

    with failure_written(json_file, lambda error: [*report(), {"study": study, "error": error}]):
        yield made
    write_summary(json_file, report())
    if (line := machine_report(began, machine_times())) is not None:
        typer.echo(line)


def kept(
    study: str, json_file: Path | None, so_far: Callable[[], tuple[Figure, ...]]
) -> Callable[[str], None]:
    """Return what says a line of a run of hours, and writes what there is of its figures by then.

    A machine that ends takes no more than the last of it along.
    """
    import typer

    def say(line: str) -> None:
        typer.echo(line)
        if figures := so_far():
            write_summary(json_file, [figure.as_json(study) for figure in figures])

    return say


def show(console: Console, figure: Figure, *, leave_out: Sequence[str] = ()) -> None:
    """Print the rows as a table, and whether the paper's trend holds."""
    console.print(f"{figure.figure}: {figure.data}", highlight=False)
    columns = [column for column in figure.rows[0] if column not in leave_out]
    _print_whole(console, figure, columns)
    verdict = "the trend holds" if figure.trend_holds else "the trend DIFFERS"
    console.print(f"{verdict}. {figure.says}\n", highlight=False)


def _print_whole(console: Console, figure: Figure, columns: Sequence[str]) -> None:
    """Print the table as wide as its words need: lines that wrap can be read, cut ones cannot.

    Where it does not fit, headings have a word a line. Left to itself rich takes what is too much
    from the widest columns, their longest word or not.
    """
    from rich.console import Console as Screen

    unbounded = console.options.update(max_width=_WIDEST)
    table = _table(figure, columns, between_words=" ")
    if console.measure(table, options=unbounded).maximum > console.width:
        table = _table(figure, columns, between_words="\n")
        needed = console.measure(table, options=unbounded).maximum
        console = Screen(file=console.file, width=max(needed, console.width))
    console.print(table)


def _table(figure: Figure, columns: Sequence[str], *, between_words: str) -> Table:
    from rich.table import Table

    table = Table()
    for column in columns:
        table.add_column(column.replace("_", between_words), justify="right")
    for row in figure.rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    return table


def tell(
    study: str,
    makers: Sequence[Callable[[], tuple[Figure, ...]]],
    json_file: Path | None,
    picture: Path | None,
    *,
    leave_out: Sequence[str] = (),
    cut_short: Callable[[], tuple[Figure, ...]] = tuple,
) -> None:
    """Make the figures, print each as it is done, and write and draw them all at the end.

    ``leave_out``: columns that would make the tables too wide. ``cut_short`` makes the first
    figures of what was done where the run ends before they are. What there is of a run that ends
    so is written and drawn too.
    """
    from rich.console import Console

    checked_picture("--picture", picture)
    checked_target("--json", json_file)
    console = Console()
    made: list[Figure] = []
    try:
        with written(study, json_file) as made:
            try:
                for maker in makers:
                    for figure in maker():
                        made.append(figure)
                        show(console, figure, leave_out=leave_out)
            except BaseException:
                made += () if made else cut_short()
                raise
    finally:
        if picture is not None and made:
            from elastream_lab.studies.picture import draw_figures

            draw_figures(made, picture)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
