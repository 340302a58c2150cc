"""``elastream study migration-response``: what rows wait around migrations, under every planner."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.model.errors import ProblemError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream_lab.studies.figure import Figure
    from elastream_lab.studies.response.days import Days
    from elastream_lab.studies.response.settings import ResponseStudy


_PARTS = ("live", "nodes", "gamma", "restart")
_FIGURES = typer.Option(
    "--figures",
    help="Which, with commas between: live (13, on executors), nodes (13, simulated), gamma (14), "
    "restart (15).",
)
_APPLICATIONS = typer.Option("--applications", help="words, patterns, or both with a comma.")
_WINDOWS = typer.Option("--windows", help="Posts in the sliding window, with commas between.")
_PLANNERS = typer.Option("--planners", help="Which planners, with commas between; left out: all.")
_SIZES = typer.Option("--sizes", help="How many executors hold state, one after the other.")
_TRACE = typer.Option(
    "--trace",
    help="With nodes and gamma: a month of yours, with node counts, in place of made days.",
)
_INPUT = typer.Option(
    "--input",
    help="With live: posts of yours, CSV, JSON lines or Parquet, in turn, in place of made ones.",
)
_TIME = typer.Option("--time", help="With --input: the column that says when a post was written.")
_TEXT = typer.Option("--text", help="With --input: the column that holds its text.")
_TRAIN = typer.Option("--train", help="The month to learn from; left out: that of --trace.")
_NODES = typer.Option("--nodes", help="FEWER,MORE: nodes of the simulated cluster.")
_SECONDS = typer.Option("--seconds", help="How long after a migration rows count as its.")
_REPEATS = typer.Option("--repeats", help="How often everything is run.")
_MIGRATIONS = typer.Option("--migrations", help="Simulated migrations in a run.")
_RATE = typer.Option("--posts-a-second", help="The load of the live runs.")
_TAU = typer.Option("--tau", help="How far an executor may be above the mean load.")
_SEED = typer.Option("--seed", help="Draws posts, days and rings.")
_MEASURED = typer.Option(
    "--measured", help="What an earlier run wrote with --json: taken in; given again: more."
)
_JSON = typer.Option("--json", help="Write the figures as JSON.")
_PICTURE = typer.Option("--picture", help="Draw the figures: .png, .svg or .pdf.")
_WIDE = (
    "mean_least_ms",
    "mean_most_ms",
    "p99_least_ms",
    "p99_most_ms",
    "repeats",
    "seconds",
)


def migration_response(
    figures: Annotated[str, _FIGURES] = ",".join(_PARTS),
    applications: Annotated[str, _APPLICATIONS] = "words,patterns",
    windows: Annotated[str, _WINDOWS] = "200,400,800",
    planners: Annotated[str | None, _PLANNERS] = None,
    sizes: Annotated[str, _SIZES] = "2,4,3,4,2",
    nodes: Annotated[str, _NODES] = "8,16",
    seconds: Annotated[float, _SECONDS] = 120.0,
    repeats: Annotated[int, _REPEATS] = 2,
    migrations: Annotated[int, _MIGRATIONS] = 12,
    posts_a_second: Annotated[float, _RATE] = 40.0,
    tau: Annotated[float, _TAU] = 0.4,
    seed: Annotated[int, _SEED] = 1,
    source: Annotated[Path | None, _INPUT] = None,
    time: Annotated[str | None, _TIME] = None,
    text: Annotated[str | None, _TEXT] = None,
    trace: Annotated[Path | None, _TRACE] = None,
    train: Annotated[Path | None, _TRAIN] = None,
    measured: Annotated[list[Path] | None, _MEASURED] = None,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
) -> None:
    """Measure what rows wait around migrations.

    Papers 000, figures 13 to 15, and 001, figures 11, 16 and 17.

    Live on executors of this machine; at the papers' 8 to 16 nodes on the simulated cluster, with
    the costs measured live or in an earlier run. With the papers' two minutes for each migration
    the live part takes hours: --seconds, --windows and --planners make it short, and --measured
    joins several short runs. A run that is ended writes what it has. Nothing else should run on
    the machine meanwhile.

      elastream study migration-response --figures live --windows 200 --seconds 8 --json 200.json
      elastream study migration-response --figures nodes --windows 200 --measured 200.json
    """
    from elastream_lab.cli.study.output import tell
    from elastream_lab.studies.response.planning import PLANNERS
    from elastream_lab.studies.response.posts import user_posts
    from elastream_lab.studies.response.settings import ResponseStudy
    from elastream_lab.studies.response.study import expect_costs, read_known

    parts = _names(figures)
    for part in parts:
        if part not in _PARTS:
            raise ProblemError("--figures", f"there is no {part!r}; there are {', '.join(_PARTS)}")
    fewer_more = _numbers("--nodes", nodes)
    if len(fewer_more) != 2:
        raise ProblemError("--nodes", f"{nodes} must be FEWER,MORE, such as 8,16")
    study = ResponseStudy(
        applications=_names(applications),
        windows=_numbers("--windows", windows),
        planners=PLANNERS if planners is None else _names(planners),
        sizes=_numbers("--sizes", sizes),
        seconds=seconds,
        repeats=repeats,
        posts_a_second=posts_a_second,
        tau=tau,
        seed=seed,
        nodes=(fewer_more[0], fewer_more[1]),
        migrations=migrations,
    )
    if source is not None and "live" not in parts:
        raise ProblemError("input", "is for live, which `figures` does not name")
    known = read_known(measured or ())
    days_of = _days(study, trace, train)
    if "live" not in parts and {"nodes", "gamma"} & set(parts):
        expect_costs(study, known)

    def live() -> tuple[Figure, ...]:
        from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
        from elastream_lab.harness.job_session import job_session
        from elastream_lab.studies.response.live import cluster_of
        from elastream_lab.studies.response.study import live_figures

        def session() -> AbstractContextManager[SparkSession]:
            return job_session(cluster_of(study), typer.echo)

        with ended_like_by_ctrl_c(), java_kept_quiet():
            return live_figures(study, known, session, typer.echo, posts)

    def earlier() -> tuple[Figure, ...]:
        from elastream_lab.studies.response.study import known_figures

        return known_figures(study, known)

    def simulated() -> tuple[Figure, ...]:
        from elastream_lab.studies.response.study import simulated_figures

        return simulated_figures(study, known, days_of, typer.echo)

    def gamma() -> tuple[Figure, ...]:
        from elastream_lab.studies.response.study import waits_by_gamma

        return waits_by_gamma(study, known, days_of)

    makers: list[Callable[[], tuple[Figure, ...]]] = []
    if "live" in parts:
        makers.append(live)
    elif known.measured:
        makers.append(earlier)
    if "nodes" in parts:
        makers.append(simulated)
    if "gamma" in parts:
        makers.append(gamma)
    if "restart" in parts:
        makers.append(lambda: _restart(repeats))
    with user_posts(source, time=time, text=text) as posts:
        tell(
            "migration-response",
            makers,
            json_file,
            picture,
            leave_out=_WIDE,
            cut_short=lambda: earlier() if known.measured else (),
        )


def _days(study: ResponseStudy, trace: Path | None, train: Path | None) -> Callable[[str], Days]:
    """Return what an application goes through: made days, or those of the trace."""
    from elastream_lab.studies.migration_cost.load import read_load
    from elastream_lab.studies.response.days import made_days, traced_days

    if trace is None:
        if train is not None:
            raise ProblemError("train", "is learnt from for `trace`, which is not given")
        return lambda application: made_days(study, application)
    judged = read_load(trace)
    days = traced_days(study, judged, judged if train is None else read_load(train))
    return lambda _application: days


def _restart(repeats: int) -> tuple[Figure, ...]:
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.model.errors import ElastreamError
    from elastream_lab.benchmarks.migration.bench import BenchResult, BenchSettings, run_benchmark
    from elastream_lab.benchmarks.migration.figure import FIGURE_MECHANISMS, restart_figures

    settings = BenchSettings(mechanisms=FIGURE_MECHANISMS, repeats=repeats)
    results: list[BenchResult] = []
    with ended_like_by_ctrl_c(), java_kept_quiet():
        run_benchmark(settings, say=typer.echo, done=results.append, failed=typer.echo)
    if not results:
        raise ElastreamError("no run of live or restart came to its end")
    return restart_figures(results, settings)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _numbers(option: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise ProblemError(option, f"{text!r} must be whole numbers separated by commas")
    return tuple(map(int, parts))
