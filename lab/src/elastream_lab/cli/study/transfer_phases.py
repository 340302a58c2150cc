"""``elastream study transfer-phases``: how long state travels, in phases and all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elastream.model.errors import ProblemError

_INPUT = typer.Option(
    "--input",
    help="A problem as for `elastream plan free-step`, in place of made ones; given again: more.",
)
_HOSTS = typer.Option("--hosts", help="Also send the bytes, between hosts of this machine: root.")
_RATE = typer.Option("--bytes-per-s", help="What the link of each node carries, in and out.")
_REPEATS = typer.Option("--repeats", help="With --hosts: how often everything is sent.")
_SEED = typer.Option("--seed", min=0, help="Draws the made migrations.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")
_PICTURE = typer.Option("--picture", help="Draw the figures: .png, .svg or .pdf.")


def transfer_phases(
    input: Annotated[list[Path] | None, _INPUT] = None,  # noqa: A002 - the option's name
    hosts: Annotated[bool, _HOSTS] = False,
    bytes_per_s: Annotated[float, _RATE] = 4e6,
    repeats: Annotated[int, _REPEATS] = 3,
    seed: Annotated[int, _SEED] = 0,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """Send state in phases, and all at once (paper 000).

    As in section 5.1.

    Estimated by the forecast, and on the simulated cluster; with --hosts also with real bytes over
    TCP, by movers on hosts of this machine whose links have the given width: two minutes.

      elastream study transfer-phases --hosts --picture phases.png
      elastream study transfer-phases --input problem.json --bytes-per-s 12500000
    """
    from elastream.cli.problem_files import read_fields, step_problem
    from elastream.cli.quiet import ended_like_by_ctrl_c
    from elastream_lab.cli.study.output import tell
    from elastream_lab.hosts.namespaces import why_not
    from elastream_lab.studies.transfer.migrations import made_migrations, planned
    from elastream_lab.studies.transfer.study import TransferStudy, transfer_figure

    if input:
        given = tuple(planned(str(path), step_problem(read_fields(path))) for path in input)
        data = "planned by free-step"
    else:
        given, data = made_migrations(seed), "made migrations"
    study = TransferStudy(given, data, bytes_per_s, hosts, repeats)
    if hosts and (why := why_not()) is not None:
        raise ProblemError("--hosts", f"none can be made here: {why}")
    with ended_like_by_ctrl_c():
        figures = [lambda: (transfer_figure(study, typer.echo),)]
        tell("transfer-phases", figures, json_file, picture, leave_out=("nodes", "state_mb"))
