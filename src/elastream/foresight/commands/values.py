"""``elastream values``: the projected costs of partitions, computed once and stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.cli.command_rules import fields_of_a_file
from elastream.cli.plan.printing import refuse
from elastream.cli.problem_files import Fields, expect_fields, read_fields
from elastream.cli.terminal import say
from elastream.foresight.commands.progress import progress
from elastream.foresight.commands.transition import by_round, chain_of
from elastream.foresight.mtm.problem import ProjectionProblem
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible

if TYPE_CHECKING:
    from elastream.foresight.mtm.runner import Runner


app = typer.Typer(
    help="Value partitions by the later migrations they lead to.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_PROBLEM = typer.Argument(metavar="[FILE]", help="The problem: work, state, tau and chain as JSON.")
_OUT = typer.Option("--out", help="The Parquet file to write.")
_TRACE = typer.Option("--trace", help="Take work and state from a trace, in place of FILE.")
_CHAIN = typer.Option(
    "--chain", help="With --trace: the chain, as `elastream trace chain` wrote it."
)
_POOL = typer.Option("--pool", min=50, help="Most partitions valued where all are too many.")
_LIST_UP_TO = typer.Option(
    "--list-up-to", min=0, help="All are valued up to this many partitions; at most 10 million."
)
_ROUNDS = typer.Option("--rounds", min=1, help="Most rounds of growth.")
_ON_SPARK = typer.Option(
    "--spark/--in-process", help="Where the pool is grown; left out: on Spark if it is large."
)
_LARGE_POOL = 5000
"""The pairs of a smaller pool cost one core seconds: less than it takes to start Spark's."""
_LONG_LIST = 50_000
"""To value fewer partitions takes one core less time than two of Spark's and its start."""
_MOST_LISTED = 10_000_000
"""Bounds of this many partitions are gigabytes on the driver and on every executor."""
_MASTER = typer.Option("--master", help="The Spark master; left out: this machine's cores.")


@app.callback()
def _options() -> None:
    """Keep ``build`` a command of its own while it is the only one."""


@app.command("build")
def build(
    out: Annotated[Path, _OUT],
    file: Annotated[Path | None, _PROBLEM] = None,
    trace: Annotated[Path | None, _TRACE] = None,
    chain: Annotated[Path | None, _CHAIN] = None,
    tau: Annotated[float, typer.Option("--tau", help="With --trace: the threshold.")] = 0.4,
    list_up_to: Annotated[int, _LIST_UP_TO] = 20_000,
    pool: Annotated[int, _POOL] = 2000,
    rounds: Annotated[int, _ROUNDS] = 8,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    on_spark: Annotated[bool | None, _ON_SPARK] = None,
    master: Annotated[str | None, _MASTER] = None,
) -> None:
    """Compute the projected cost of partitions (PMC) and store it.

    Up to --list-up-to partitions all are valued, exactly; else a pool is grown. On Spark with
    --spark or --master, and by itself where more than 50,000 are listed or the pool is of more
    than 5000.

      elastream values build problem.json --out values.parquet
      elastream values build problem.json --list-up-to 1000000 --out values.parquet
      elastream values build --trace trace --chain chain.json --tau 0.4 --out values.parquet
    """
    from elastream.cli.run_summaries import checked_target
    from elastream.foresight.mtm.growth import GrowthSettings
    from elastream.foresight.mtm.values import count_all, partition_values
    from elastream.foresight.values_file import write_values

    checked_target("--out", out)
    problem = _problem(file, trace, chain, tau)
    if list_up_to > _MOST_LISTED:
        raise ProblemError("--list-up-to", f"{list_up_to} is above {_MOST_LISTED:,}")
    settings = GrowthSettings(most_listed=list_up_to, pool=pool, rounds=rounds, seed=seed)
    if on_spark is None:
        number = count_all(problem)
        many = number > _LONG_LIST if number <= list_up_to else pool > _LARGE_POOL
        on_spark = master is not None or many
    bar = progress("growing the pool", rounds)
    with _spark_or_not(on_spark, master) as runner, bar as report:
        values = partition_values(
            problem, settings=settings, runner=runner, finished=by_round(report)
        )
    if isinstance(values, Infeasible):
        refuse(values)
    write_values(out, values)
    which = "all" if values.complete else "a pool of"
    say(f"{out}: {which} {len(values.members):,} partitions, {problem.fingerprint[:12]}")


def _problem(
    file: Path | None, trace: Path | None, chain: Path | None, tau: float
) -> ProjectionProblem:
    if (file is None) == (trace is None):
        raise ProblemError("FILE", "give either a problem file or --trace and --chain")
    if file is not None:
        return projection_problem_of(file)
    if trace is None or chain is None:
        raise ProblemError("--chain", "is needed with --trace")
    from elastream.foresight.traces.folder import read_tasks

    tasks = read_tasks(trace)
    work, state = tasks.work.sum(axis=0).tolist(), tasks.usual_state_bytes.tolist()
    return ProjectionProblem.of(work, state, tau, chain_of(read_fields(chain)))


def projection_problem_of(file: Path) -> ProjectionProblem:
    """Return the problem of a file: work, state, tau and chain."""
    with fields_of_a_file():
        data: Fields = read_fields(file)
        expect_fields("", data, required=("work", "state", "tau", "chain"))
        chain = chain_of(data["chain"])
        return ProjectionProblem.of(data["work"], data["state"], data["tau"], chain)


@contextmanager
def _spark_or_not(on_spark: bool, master: str | None) -> Iterator[Runner | None]:
    """Give who runs the long loops: this process, or a Spark session for as long as the block."""
    if not on_spark:
        yield None
        return
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.foresight.spark_runner import SparkRunner
    from elastream.spark.sessions.batch_session import batch_session

    session = batch_session("elastream values", master=master)
    with ended_like_by_ctrl_c(), java_kept_quiet(), session as spark:
        yield SparkRunner(spark.sparkContext)
