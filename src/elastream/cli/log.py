"""``elastream log FILE``: a decision log as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.cli.options import LogFile
from elastream.cli.terminal import say
from elastream.core.decision_log import read_decisions
from elastream.core.decisions import Decision, line_of

if TYPE_CHECKING:
    from rich.table import Table


_QUIET = ("hold", "wait")
"""Kinds of which a run of batches makes one row."""
_STYLES = {
    "scale-out": "bold green",
    "scale-in": "bold cyan",
    "rebalance": "bold blue",
    "move": "bold blue",
    "advise": "magenta",
    "done": "green",
    "replan": "yellow",
    "refuse": "yellow",
    "verify": "green",
    "lost": "bold red",
    "stuck": "bold red",
    "abandon": "bold red",
    "learn": "magenta",
    "spare": "cyan",
    "partitions": "yellow",
    "repartition": "bold blue",
    "restart": "bold red",
    "join": "cyan",
    "leave": "cyan",
    "hold": "dim",
    "wait": "dim",
}

AsJson = Annotated[bool, typer.Option("--json", help="Print every record as a line of JSON.")]


def log(file: LogFile, as_json: AsJson = False) -> None:
    """Show what was decided in a run, when and why.

    Batches in a row in which nothing was done make one row; --json prints every record. Rotated
    files (FILE.1, FILE.2, ...) are read first.
    """
    torn: list[str] = []
    decisions = read_decisions(file, torn=torn.append)
    if as_json:
        for decision in decisions:
            typer.echo(line_of(decision))
    else:
        from elastream.cli.screen import Screen

        Screen().print(_table(list(_rows(decisions))))
    for where in torn:
        say(f"{where} was torn by a crash or a full disk and is skipped", err=True)


@dataclass(frozen=True, slots=True)
class _Row:
    """One decision, or a run of quiet ones.

    Batches in which a change was wanted and held back are not joined with others.
    """

    first: Decision
    last: Decision
    decisions: int
    lowest: float | None
    """Utilisation over the run; ``None`` where none was known."""
    highest: float | None
    queries: frozenset[str] = frozenset()
    """Those that the decisions are about."""

    def joined(self, decision: Decision) -> _Row | None:
        """Return the row with one more decision, or ``None`` where a new row must begin."""
        if decision.kind not in _QUIET or decision.kind != self.last.kind:
            return None
        if decision.executors != self.last.executors:
            return None
        if ("wanted" in decision.figures) != ("wanted" in self.last.figures):
            return None
        known = [u for u in (self.lowest, self.highest, decision.utilisation) if u is not None]
        return _Row(
            self.first,
            decision,
            self.decisions + 1,
            min(known, default=None),
            max(known, default=None),
            self.queries | _named(decision),
        )


def _rows(decisions: Iterable[Decision]) -> Iterator[_Row]:
    row: _Row | None = None
    for decision in decisions:
        joined = row.joined(decision) if row else None
        if row and joined is None:
            yield row
        used = decision.utilisation
        row = joined or _Row(decision, decision, 1, used, used, _named(decision))
    if row:
        yield row


def _named(decision: Decision) -> frozenset[str]:
    return frozenset() if decision.query is None else frozenset({decision.query})


def _table(rows: Sequence[_Row]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from elastream.cli.screen import literal

    table = Table(box=None, header_style="bold", pad_edge=False)
    several = len(frozenset[str]().union(*(row.queries for row in rows))) > 1
    table.add_column("time (UTC)", no_wrap=True)
    if several:
        table.add_column("query", overflow="fold")
    table.add_column("batch", justify="right", no_wrap=True)
    table.add_column("executors", justify="right")
    table.add_column("utilisation", justify="right", no_wrap=True)
    table.add_column("decision", no_wrap=True)
    table.add_column("reason", overflow="fold", ratio=1)
    day = None
    for row in rows:
        at = _time(row.first)
        date = None if at is None else at.date()
        stamp = "" if at is None else at.strftime("%H:%M:%S" if date == day else "%m-%d %H:%M:%S")
        day = date or day
        times = f" x{row.decisions}" if row.decisions > 1 else ""
        one = len(row.queries) == 1
        who = next(iter(row.queries)) if one else f"{len(row.queries)} queries" * bool(row.queries)
        table.add_row(
            stamp,
            *([who] if several else []),
            _span(row.first.batch, row.last.batch) if one or not row.queries else "",
            str(row.last.executors),
            _span(_two_digits(row.lowest), _two_digits(row.highest)),
            Text(row.last.kind + times, style=_STYLES.get(row.last.kind, "")),
            literal(row.last.reason),
        )
    return table


def _time(decision: Decision) -> datetime | None:
    if decision.at_ms is None:
        return None
    try:
        return datetime.fromtimestamp(decision.at_ms / 1000, UTC)
    except (OverflowError, ValueError):  # a year that no calendar has
        return None


def _span(first: object, last: object) -> str:
    if last is None:
        return ""
    return str(last) if first in (None, last) else f"{first}-{last}"


def _two_digits(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"
