"""``elastream study``: the papers' experiments reproduced, each with its own verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elastream.model.errors import ProblemError
from elastream_lab.cli.study.handover import handover
from elastream_lab.cli.study.look_ahead import look_ahead
from elastream_lab.cli.study.migration_response import migration_response
from elastream_lab.cli.study.output import tell
from elastream_lab.cli.study.precompute import numbers_of, precompute
from elastream_lab.cli.study.projected_cost import projected_cost
from elastream_lab.cli.study.replication import replication
from elastream_lab.cli.study.resilience import latency, resilience
from elastream_lab.cli.study.soak import soak
from elastream_lab.cli.study.transfer_phases import transfer_phases

app = typer.Typer(
    help="Repeat the experiments of the papers: table, picture, JSON.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _options() -> None:
    """Keep every study a command of its own, however many there are."""


_JSON = typer.Option("--json", help="Write the figures as JSON.")
_PICTURE = typer.Option("--picture", help="Draw the figures: .png, .svg or .pdf.")

app.command("resilience")(resilience)
app.command("latency")(latency)
app.command("replication")(replication)
app.command("handover")(handover)
app.command("look-ahead")(look_ahead)
app.command("transfer-phases")(transfer_phases)
app.command("precompute")(precompute)
app.command("projected-cost")(projected_cost)
app.command("migration-response")(migration_response)
app.command("soak")(soak)


_TRACE = typer.Option(
    "--trace",
    help="The trace of the month that is judged, with node counts; given again: another load.",
)
_TRAIN = typer.Option(
    "--train", help="The trace of the month before, one for each --trace; left out: the same one."
)
_MIGRATIONS = typer.Option("--migrations", min=2, help="Most consecutive migrations.")
_RINGS = typer.Option("--seeds", min=1, help="Rings of consistent hashing.")
_TASKS = typer.Option("--tasks", min=1, help="Tasks, a divisor of the trace's; other figures.")
_PARTS = typer.Option(
    "--figures",
    help="What they vary, with commas between: tau (9-11), ahead (free placement that looks "
    "ahead), tasks (12), gamma (14), windows, schedule.",
)
_TAUS = typer.Option("--taus", help="With the figure `ahead`: thresholds, with commas between.")


@app.command("migration-cost")
def migration_cost(
    trace: Annotated[list[Path], _TRACE],
    train: Annotated[list[Path] | None, _TRAIN] = None,
    migrations: Annotated[int, _MIGRATIONS] = 100,
    seeds: Annotated[int, _RINGS] = 100,
    tasks: Annotated[int, _TASKS] = 64,
    figures: Annotated[str | None, _PARTS] = None,
    taus: Annotated[str, _TAUS] = "0.2,0.4,0.6,0.8,1.0,1.2",
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """State moved by every planner in a real month.

    Papers 000 and 001, figures 9 to 17.

    Chain and values come from --train, the migrations from --trace; both need `elastream trace
    build` and `elastream trace nodes` first. The papers' two loads are a trace of words and one of
    patterns in a window. Traces of 256 tasks also show what m does. Takes about ten minutes a
    load, half of it for the windows; fewer --migrations and --seeds take little less.

      elastream study migration-cost --trace april --train march --picture cost.png
      elastream study migration-cost --trace words --trace pairs --train words-0 --train pairs-0
      elastream study migration-cost --trace april --train march --figures ahead --taus 0.1,0.3
    """
    from elastream_lab.studies.migration_cost.figures import PARTS
    from elastream_lab.studies.migration_cost.figures import figures as makers_of
    from elastream_lab.studies.migration_cost.load import read_load
    from elastream_lab.studies.migration_cost.study import CostStudy

    parts = list(PARTS) if figures is None else [part.strip() for part in figures.split(",")]
    for part in parts:
        if part not in PARTS:
            raise ProblemError("--figures", f"there is no {part!r}; there are {', '.join(PARTS)}")
    if train and len(train) != len(trace):
        raise ProblemError("--train", f"is given {len(train)} times, --trace {len(trace)} times")
    studies = []
    for month, month_before in zip(trace, train or trace, strict=True):
        judged = read_load(month)
        learnt = judged if month_before == month else read_load(month_before)
        studies.append(CostStudy(learnt, judged, migrations=migrations, seeds=seeds, tasks=tasks))
        studies[-1].check()
    makers = makers_of(studies, parts, numbers_of("--taus", taus))
    tell("migration-cost", makers, json_file, picture)
