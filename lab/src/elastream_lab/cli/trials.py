"""Running a benchmark of many runs from the command line: steps, figures, JSON, exit code."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import typer

from elastream.cli.exits import BROKEN

if TYPE_CHECKING:
    from rich.table import Table


class _Result(Protocol):
    @property
    def exact(self) -> bool: ...

    def as_json(self) -> dict[str, object]: ...


R = TypeVar("R", bound=_Result)


def run_trials(
    run: Callable[[Callable[[str], None], Callable[[R], None], Callable[[str], None]], None],
    settings: Mapping[str, object],
    *,
    table: Callable[[Sequence[R]], Table],
    width: int,
    note: str,
    json_file: Path | None,
    draw: Callable[[Sequence[R]], None],
) -> None:
    """Let ``run(say, done, failed)`` run, and show and write what came of it, also where it ends.

    ``table`` needs so much ``width``, also where the output is not a terminal; ``note`` is a line
    below it. ``draw`` is called where there is a result. Exits as broken where a run failed or was
    not exact.
    """
    from rich.console import Console

    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet, line_of_failure
    from elastream.cli.run_summaries import write_summary

    console = Console()
    began = time.monotonic()
    results: list[R] = []
    errors: list[str] = []

    def say(line: str) -> None:
        at = f"{time.monotonic() - began:5.0f} s"
        console.print(f"{at}  {line}", highlight=False, soft_wrap=True)

    def report() -> dict[str, object]:
        runs = [result.as_json() for result in results]
        found: dict[str, object] = {"settings": dict(settings), "runs": runs}
        return {**found, "error": "; ".join(errors)} if errors else found

    try:
        with ended_like_by_ctrl_c(), java_kept_quiet():
            run(say, results.append, errors.append)
    except BaseException as error:
        errors.append(line_of_failure(error))
        write_summary(json_file, report())
        raise
    Console(width=max(console.width, width)).print(table(results))
    console.print(note, highlight=False, soft_wrap=True, style="dim")
    for error_line in errors:
        console.print(error_line, style="red")
    write_summary(json_file, report())
    if results:
        draw(results)
    if errors or not all(result.exact for result in results):
        raise typer.Exit(BROKEN)
