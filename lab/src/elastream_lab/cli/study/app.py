"""``elastream study``: the papers' experiments made anew, each with its own verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elastream.model.errors import ProblemError
from elastream_lab.cli.study.handover import handover
from elastream_lab.cli.study.look_ahead import look_ahead
from elastream_lab.cli.study.output import tell
from elastream_lab.cli.study.replication import replication

__all__ = ["app"]

app = typer.Typer(
    help="Make the experiments of the papers anew: a table, a picture and JSON.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _options() -> None:
    """Keep every study a command of its own, however many there are."""


_JSON = typer.Option("--json", help="Write the figures as JSON.")
_PICTURE = typer.Option("--picture", help="Draw the figures: .png, .svg or .pdf.")
_SEED = typer.Option("--seed", min=0, help="Draws the graphs and the rates.")
_GRAPHS = typer.Option("--graphs", min=1, help="Average over so many random graphs.")
_HOURS = typer.Option("--hours", min=1, help="Average over so many simulated hours of traffic.")
_FIGURES = typer.Option(
    "--figures", help="Which ones, with commas between: 9, 14, 15, 16, 17, 19, table3."
)


@app.command("resilience")
def resilience(
    figures: Annotated[str | None, _FIGURES] = None,
    graphs: Annotated[int, _GRAPHS] = 5,
    seed: Annotated[int, _SEED] = 0,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """How large a set of input rates placements bear (paper 003, figures 9 to 19, table 3).

    All in simulation, on random query graphs. Takes a few minutes; --figures takes some of them.

      elastream study resilience --figures 9,14 --picture resilience.png
    """
    from elastream_lab.studies.resilience.figures import FIGURES

    names = list(FIGURES) if figures is None else [name.strip() for name in figures.split(",")]
    for name in names:
        if name not in FIGURES:
            known = ", ".join(FIGURES)
            raise ProblemError("--figures", f"there is no {name!r}; there are {known}")
    makers = [lambda name=name: FIGURES[name](seed, graphs) for name in names]
    tell("resilience", makers, json_file, picture)


_ON_SPARK = typer.Option("--on-spark", help="Run it on executors of this machine, smaller.")
_REPEATS = typer.Option("--repeats", help="With --on-spark: how many bursts, each by all methods.")
_BURST_S = typer.Option("--seconds", help="With --on-spark: how long the replay of a burst takes.")
_METHODS = typer.Option(
    "--methods",
    help="With --on-spark: which, with commas between: rod, llf, connected, stock, refined.",
)


@app.command("latency")
def latency(
    hours: Annotated[int, _HOURS] = 5,
    seed: Annotated[int, _SEED] = 0,
    on_spark: Annotated[bool, _ON_SPARK] = False,
    repeats: Annotated[int, _REPEATS] = 2,
    replay_s: Annotated[float, _BURST_S] = 20.0,
    methods: Annotated[str, _METHODS] = "rod,llf,connected,stock",
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """How long tuples of a traffic monitor wait under bursts (paper 003, figure 18).

    Simulated at the paper's size; with --on-spark as streaming queries on three executors of this
    machine, in about twelve minutes. Nothing else should run on it meanwhile.

      elastream study latency --json latency.json
      elastream study latency --on-spark --repeats 3 --picture latency.png
    """
    if not on_spark:
        from elastream_lab.studies.resilience.latency import latency as figure

        tell("latency", [lambda: (figure(seed, hours),)], json_file, picture)
        return
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream_lab.studies.resilience.on_spark import latency_on_spark
    from elastream_lab.studies.resilience.replays import SparkLatency

    names = tuple(name.strip() for name in methods.split(","))
    wanted = SparkLatency(seed=seed, repeats=repeats, replay_s=replay_s, methods=names)
    with ended_like_by_ctrl_c(), java_kept_quiet():
        tell("latency", [lambda: latency_on_spark(wanted, typer.echo)], json_file, picture)


app.command("replication")(replication)
app.command("handover")(handover)
app.command("look-ahead")(look_ahead)


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
    help="What they vary, with commas between: tau (9-11), tasks (12), gamma (14), windows.",
)


@app.command("migration-cost")
def migration_cost(
    trace: Annotated[list[Path], _TRACE],
    train: Annotated[list[Path] | None, _TRAIN] = None,
    migrations: Annotated[int, _MIGRATIONS] = 100,
    seeds: Annotated[int, _RINGS] = 100,
    tasks: Annotated[int, _TASKS] = 64,
    figures: Annotated[str | None, _PARTS] = None,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """State moved by every planner in a real month (papers 000 and 001, figures 9 to 17).

    Chain and values come from --train, the migrations from --trace; both need `elastream trace
    build` and `elastream trace nodes` first. The papers' two loads are a trace of words and one of
    patterns in a window. Traces of 256 tasks also show what m does. Takes about ten minutes a
    load, half of it for the windows; fewer --migrations and --seeds take little less.

      elastream study migration-cost --trace april --train march --picture cost.png
      elastream study migration-cost --trace words --trace pairs --train words-0 --train pairs-0
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
    tell("migration-cost", makers_of(studies, parts), json_file, picture)
