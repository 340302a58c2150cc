"""``elastream doctor``: whether attaching would work here, and what to do where not."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from elastream.cli.options import Conf, settings_of
from elastream.model.errors import ElastreamError

if TYPE_CHECKING:
    from rich.table import Table

    from elastream.doctor.findings import Report


_STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red", "not tried": "dim"}
_PARAMETER: Final = re.compile(r"`(\w+)`")
"""How findings name an option of this command."""

_MASTER = typer.Option(
    "--master",
    help="The Spark master. Without it the one that is set around; without that, executors of "
    "this machine.",
)
_CHECKPOINT = typer.Option(
    "--checkpoint",
    metavar="PATH",
    help="Where queries keep their checkpoints. Driver and executors write and read there, and "
    "leave nothing.",
)
_EXECUTORS = typer.Option("--executors", help="How many executors there should be room for.")
_PATIENCE = typer.Option("--patience", help="How many seconds to wait for them.")
_APP = typer.Option(
    "--app",
    metavar="APP",
    help="A program, which is read and not run: its settings and triggers are looked at too.",
)
_JSON = typer.Option("--json", help="Print what was found as JSON.")


def doctor(
    master: Annotated[str | None, _MASTER] = None,
    conf: Conf = None,
    checkpoint: Annotated[str | None, _CHECKPOINT] = None,
    executors: Annotated[int, _EXECUTORS] = 2,
    patience: Annotated[float, _PATIENCE] = 60.0,
    app: Annotated[Path | None, _APP] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Check whether elastream works here, and what to do if not.

    Looks for PySpark and Java, reads settings, starts a session, attaches, asks for executors, and
    lets them and the driver share a folder. Nothing of it stays. The exit code is 0 only where
    attaching would work, else 2.

      elastream doctor
      elastream doctor --master spark://master:7077 --checkpoint hdfs://name/checkpoints
      elastream doctor --app app.py --conf spark.executor.memory=2g --json
    """
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.cli.screen import Screen, literal
    from elastream.doctor.examination import examined
    from elastream.doctor.settings import DoctorSettings

    settings = DoctorSettings(master, settings_of(conf), checkpoint, executors, patience, app)
    screen = Screen(stderr=True)
    with (
        ended_like_by_ctrl_c(),
        java_kept_quiet(),
        _warnings_in_findings(),
        screen.status("looking") as status,
    ):
        report = examined(settings, lambda check: status.update(literal(check.doing)))
    if as_json:
        typer.echo(json.dumps(_as_data(report), indent=2))
    else:
        console = Screen()
        console.print(_table(report))
        if report.would_attach:
            console.print("attaching would work here", style="bold green")
    failure = report.first_failure
    if failure is not None:
        raise ElastreamError(f"attaching would not work here: {failure.name}: {failure.found}")


@contextmanager
def _warnings_in_findings() -> Iterator[None]:
    """Keep the loop's own warnings off the screen: the findings have them."""
    ours = logging.getLogger("elastream")
    before = ours.level
    ours.setLevel(logging.ERROR)
    try:
        yield
    finally:
        ours.setLevel(before)


def _table(report: Report) -> Table:
    from rich.table import Table
    from rich.text import Text

    from elastream.cli.screen import literal

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("check", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("found, and what to do", overflow="fold", ratio=1)
    for finding in report.findings:
        found = literal(finding.found)
        if finding.todo:
            found.append_text(literal(f"\n→ {_spelled(finding.todo)}", "italic"))
        verdict = Text(finding.verdict, style=_STYLES[finding.verdict])
        table.add_row(finding.name, verdict, found)
    return table


def _as_data(report: Report) -> dict[str, object]:
    findings = [{**asdict(each), "todo": _spelled(each.todo)} for each in report.findings]
    return {"would_attach": report.would_attach, "findings": findings}


def _spelled(text: str) -> str:
    return _PARAMETER.sub(lambda found: f"--{found[1].replace('_', '-')}", text)
