"""``elastream study resilience`` and ``latency``: the experiments of paper 003, section 7."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.model.errors import ProblemError
from elastream_lab.cli import traffic_settings
from elastream_lab.cli.study.output import kept, tell
from elastream_lab.cli.study.own_data import latency_of, resilience_of

if TYPE_CHECKING:
    from elastream_lab.studies.figure import Figure
    from elastream_lab.studies.resilience.truth import SparkTruth


_JSON = typer.Option("--json", help="Write the figures as JSON.")
_PICTURE = typer.Option("--picture", help="Draw the figures: .png, .svg or .pdf.")
_SEED = typer.Option("--seed", min=0, help="Draws the graphs and the rates.")
_GRAPHS = typer.Option("--graphs", min=1, help="Average over this many random graphs.")
_HOURS = typer.Option("--hours", min=1, help="Average over this many simulated hours of traffic.")
_FIGURES = typer.Option(
    "--figures", help="Which ones, with commas between: 9, 14, 15, 16, 17, 19, table3."
)
_GRAPH = typer.Option(
    "--input", help="A problem as for `elastream plan resilient`: its graph alone, all methods."
)
_TRUTH = typer.Option(
    "--on-spark", help="Figure 14 in place of these, on executors of this machine."
)
_POINTS = typer.Option("--points", help="With --on-spark: points drawn from the ideal set.")
_BATCHES = typer.Option("--batches", help="With --on-spark: batches of a point in a placement.")
_EXECUTORS = typer.Option("--executors", help="With --on-spark: executor processes to run on.")
_WORK = typer.Option(
    "--work",
    help="With --on-spark: whether a packet's cost is slept or burnt; burnt needs a core for each "
    "executor.",
)
_TRIGGER_S = typer.Option(
    "--trigger-s", help="With --on-spark: how often a batch begins; longer where Spark is slow."
)
_PLACEMENTS = typer.Option(
    "--methods",
    help="With --on-spark: which, with commas between; left out: rod, refined, llf, connected, "
    "correlation, random, max-rate.",
)

_MEASURED = typer.Option(
    "--measured",
    help="With --on-spark: what an earlier run wrote with --json, of another seed: taken in; "
    "given again: more.",
)


def resilience(
    input: Annotated[Path | None, _GRAPH] = None,  # noqa: A002 - the option's name
    figures: Annotated[str | None, _FIGURES] = None,
    graphs: Annotated[int, _GRAPHS] = 5,
    seed: Annotated[int, _SEED] = 0,
    on_spark: Annotated[bool, _TRUTH] = False,
    points: Annotated[int, _POINTS] = 100,
    batches: Annotated[int, _BATCHES] = 5,
    executors: Annotated[int, _EXECUTORS] = 3,
    work: Annotated[str, _WORK] = "slept",
    trigger_s: Annotated[float, _TRIGGER_S] = 2.0,
    methods: Annotated[str | None, _PLACEMENTS] = None,
    measured: Annotated[list[Path] | None, _MEASURED] = None,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """How large a set of input rates placements bear.

    Paper 003, figures 9 to 19 and table 3.

    In simulation, on random query graphs, in a few minutes; --figures takes some of them. With
    --input figure 14 is made of your graph. With --on-spark figure 14 as the paper ran it: a trial
    run of the traffic monitor, then points of the ideal set on live executors under every
    placement, next to what the model says of them. A point takes about two minutes; nothing else
    should run on the machine meanwhile. Points of several runs, with a seed each, are joined by
    --measured; --json has at any time those that there are, also of a run that is ended.

      elastream study resilience --figures 9,14 --picture resilience.png
      elastream study resilience --input problem.json
      elastream study resilience --on-spark --points 20 --picture truth.png
      elastream study resilience --on-spark --seed 1 --measured first.json --json both.json
    """
    if input is not None:
        if figures is not None:
            raise ProblemError("--figures", "are of made graphs; leave it out with --input")
        if on_spark:
            raise ProblemError("--input", "is simulated; leave out --on-spark")
        resilience_of(input, seed, json_file, picture)
        return
    if on_spark:
        from elastream_lab.studies.resilience.truth import ALL_METHODS, SparkTruth

        wanted = SparkTruth(
            seed=seed,
            points=points,
            batches=batches,
            executors=executors,
            work=work,
            methods=ALL_METHODS if methods is None else _named(methods),
            trigger_s=trigger_s,
        )
        _truth(wanted, measured or (), json_file, picture)
        return
    from elastream_lab.studies.resilience.figures import FIGURES

    names = list(FIGURES) if figures is None else [name.strip() for name in figures.split(",")]
    for name in names:
        if name not in FIGURES:
            known = ", ".join(FIGURES)
            raise ProblemError("--figures", f"there is no {name!r}; there are {known}")
    makers = [lambda name=name: FIGURES[name](seed, graphs) for name in names]
    tell("resilience", makers, json_file, picture)


def _truth(
    wanted: SparkTruth, measured: Sequence[Path], json_file: Path | None, picture: Path | None
) -> None:
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream_lab.studies.resilience.point_runs import truth_on_spark, truth_so_far
    from elastream_lab.studies.resilience.truth import earlier_runs

    runs = earlier_runs(measured, wanted)
    aside = ("rate_0", "rate_1", "rate_2", "volume")

    def so_far() -> tuple[Figure, ...]:
        return truth_so_far(wanted, runs)

    say = kept("resilience", json_file, so_far)
    with ended_like_by_ctrl_c(), java_kept_quiet():
        tell(
            "resilience",
            [lambda: truth_on_spark(wanted, say, runs)],
            json_file,
            picture,
            leave_out=aside,
            cut_short=so_far,
        )


def _named(methods: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in methods.split(","))


_ON_SPARK = typer.Option("--on-spark", help="Run it on executors of this machine, smaller.")
_REPEATS = typer.Option("--repeats", help="With --on-spark: how many bursts, each by all methods.")
_BURST_S = typer.Option(
    "--seconds", help="With --on-spark: how long the replay of a burst takes, at each level."
)
_METHODS = typer.Option(
    "--methods",
    help="With --on-spark: which, with commas between: rod, refined, llf, connected, correlation, "
    "max-rate, random, stock.",
)
_LEVELS = typer.Option(
    "--levels", help="With --on-spark: by what rates are multiplied, with commas between."
)
_KNOWN = typer.Option(
    "--measured",
    help="With --on-spark: what a run of the same wrote with --json, ended or disturbed: what it "
    "has is not run again; given again: more.",
)


def latency(
    input: traffic_settings.Input = None,  # noqa: A002 - the option's name
    time: traffic_settings.Time = None,
    source: traffic_settings.Source = None,
    destination: traffic_settings.Destination = None,
    hours: Annotated[int, _HOURS] = 5,
    seed: Annotated[int, _SEED] = 0,
    on_spark: Annotated[bool, _ON_SPARK] = False,
    repeats: Annotated[int, _REPEATS] = 2,
    replay_s: Annotated[float, _BURST_S] = 20.0,
    methods: Annotated[str, _METHODS] = "rod,llf,connected,stock",
    levels: Annotated[str, _LEVELS] = "1,2,3,4",
    executors: Annotated[int, _EXECUTORS] = 3,
    work: Annotated[str, _WORK] = "slept",
    measured: Annotated[list[Path] | None, _KNOWN] = None,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """How long tuples wait under bursts (paper 003).

    Simulated at the paper's size; with --on-spark as streaming queries on executors of this
    machine, at several load levels, in about 20 minutes; nothing else should run on it meanwhile.
    --input takes the packets of a log, on Spark a part of it for each repeat. A run that is ended
    writes what it has, and one with the same options and --measured goes on from there.

      elastream study latency --json latency.json
      elastream study latency --on-spark --repeats 3 --json first.json
      elastream study latency --on-spark --repeats 3 --measured first.json --picture latency.png
      elastream study latency --input dns.log --time ts --source id.orig_h --destination id.resp_h
    """
    log = traffic_settings.TrafficSettings(input, time, source, destination)
    if input is not None and not on_spark:
        latency_of(log, input.name, seed, json_file, picture)
        return
    if not on_spark:
        from elastream_lab.studies.resilience.latency import latency as figure

        tell("latency", [lambda: (figure(seed, hours),)], json_file, picture)
        return
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream_lab.studies.resilience.on_spark import (
        earlier_replays,
        latency_on_spark,
        replayed_so_far,
    )
    from elastream_lab.studies.resilience.replays import SparkLatency

    wanted = SparkLatency(
        seed=seed,
        repeats=repeats,
        replay_s=replay_s,
        methods=_named(methods),
        levels=_numbers(levels),
        executors=executors,
        work=work,
        log=None if input is None else log.packets(),
    )
    found = earlier_replays(measured or (), wanted)
    aside = ("used_least", "used_most", "response_least", "response_most", "placed_utilisation")

    def so_far() -> tuple[Figure, ...]:
        return replayed_so_far(found, wanted)

    say = kept("latency", json_file, so_far)
    with ended_like_by_ctrl_c(), java_kept_quiet():
        tell(
            "latency",
            [lambda: latency_on_spark(wanted, say, found)],
            json_file,
            picture,
            leave_out=aside,
            cut_short=so_far,
        )


def _numbers(levels: str) -> tuple[float, ...]:
    try:
        return tuple(float(level) for level in levels.split(","))
    except ValueError:
        raise ProblemError("--levels", f"{levels!r} is not numbers with commas between") from None
