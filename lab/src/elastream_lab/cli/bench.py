"""``elastream bench``: benchmarks on real executors, and of the loop at sizes no machine has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.cli.exits import BROKEN
from elastream_lab.cli.bench_elasticity import elasticity

if TYPE_CHECKING:
    from rich.table import Table

    from elastream_lab.benchmarks.control.simulated import ControlRow, ControlSize
    from elastream_lab.benchmarks.migration.bench import BenchResult

__all__ = ["app"]

app = typer.Typer(
    help="Measure on this machine; nothing else should run on it meanwhile.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("elasticity")(elasticity)

_TABLE_WIDTH = 160
"""What the table needs, also where the output is no terminal."""
_STATE = typer.Option("--state", help="How large the state is: small, large or both.")
_MECHANISMS = typer.Option(
    "--mechanisms",
    help="Which ones, with commas between: stock, live, live-cold, all-at-once, progressive, "
    "pause, restart. Left out: all.",
)
_SERVICE = typer.Option("--service-us", help="Microseconds a word costs, slept where its state is.")
_MEMORY = typer.Option("--in-memory", help="Keep checkpoints in memory-backed storage.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")
_SIZES = typer.Option(
    "--sizes",
    help="EXECUTORSxTASKSxQUERIES, with commas between. Left out: from 10x200x1 to 1000x20000x50.",
)
_JVM = typer.Option("--jvm/--no-jvm", help="Whether calls into Spark's JVM are timed as well.")
_TRIGGER_S = 5.0
"""For what listening would cost: batches begin so often."""
_PICTURE = typer.Option("--picture", help="Draw the response times: .png, .svg or .pdf.")
_SHARES = typer.Option(
    "--share-picture",
    help="Draw what the new executor does of the work: stock and live, at the first state.",
)


@app.command("control")
def control(
    sizes: Annotated[str | None, _SIZES] = None,
    jvm: Annotated[bool, _JVM] = True,
    json_file: Annotated[Path | None, _JSON] = None,
) -> None:
    """Drive the real loop on a simulated cluster of growing size, and time it.

    How long a step and a plan take, the memory of the process and the growth of the decision log,
    each size in a process of its own, through scale-outs and scale-ins. Then the calls into
    Spark's JVM are timed on a real session, which the simulation does without.

      elastream bench control --json control.json
      elastream bench control --sizes 100x2000x10 --no-jvm
    """
    from rich.console import Console

    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.cli.run_summaries import checked_target, failure_written, write_summary
    from elastream_lab.benchmarks.control.jvm import JvmCosts, jvm_costs
    from elastream_lab.benchmarks.control.simulated import SIZES, measured_apart

    chosen = SIZES if sizes is None else tuple(_size(text) for text in sizes.split(","))
    checked_target("--json", json_file)
    console = Console()
    rows: list[ControlRow] = []
    costs: list[JvmCosts] = []

    def told(error: str | None = None) -> dict[str, object]:
        found: dict[str, object] = {"rows": [row.as_json() for row in rows]}
        if costs:
            found["jvm"] = costs[0].as_json()
        return found if error is None else {**found, "error": error}

    def say(line: str) -> None:
        console.print(line, highlight=False)

    with failure_written(json_file, told), ended_like_by_ctrl_c(), java_kept_quiet():
        for size in chosen:
            say(f"{size.executors:,} executors, {size.tasks:,} tasks, {size.queries} queries")
            rows.append(measured_apart(size))
        if jvm:
            costs.append(jvm_costs(say))
    Console(width=max(console.width, _TABLE_WIDTH)).print(_control_table(rows))
    for cost in costs:
        last = rows[-1]
        share = cost.at(last.tasks, last.queries, _TRIGGER_S)
        say(
            f"calls into the JVM: {cost.fetch_ms_per_1000_tasks:.0f} ms to fetch 1,000 finished "
            f"tasks, {cost.report_ms:.2f} ms to move a state store, {cost.look_ms:.1f} ms a look; "
            f"{last.tasks:,} tasks every {_TRIGGER_S:g} s would keep {share:.0%} of a core busy"
        )
    write_summary(json_file, told())


def _size(text: str) -> ControlSize:
    from elastream.model.errors import ProblemError
    from elastream_lab.benchmarks.control.simulated import ControlSize

    parts = text.strip().split("x")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        raise ProblemError("--sizes", f"{text!r} is no EXECUTORSxTASKSxQUERIES, as 100x2000x10")
    try:
        return ControlSize(*map(int, parts))
    except ProblemError as error:
        raise ProblemError("--sizes", f"{text}: {error}") from None


def _control_table(rows: Sequence[ControlRow]) -> Table:
    from rich.table import Table

    made = Table(title="the loop on a simulated cluster")
    for name in (
        "executors",
        "tasks",
        "queries",
        "step ms\nmedian",
        "p99",
        "worst",
        "longest\nplan s",
        "plans\nproven",
        "memory\nMB",
        "log bytes\na batch",
        "changes",
        "tasks\nmoved",
    ):
        made.add_column(name, justify="right")
    for row in rows:
        proven = sum(plan == "optimal" for plan in row.plans)
        made.add_row(
            f"{row.executors:,}",
            f"{row.tasks:,}",
            str(row.queries),
            f"{row.step_median_ms:.2f}",
            f"{row.step_p99_ms:.1f}",
            f"{row.step_worst_ms:.1f}",
            f"{row.plan_s:.2f}",
            f"{proven} of {len(row.plans)}",
            f"{row.memory_mb:.0f}",
            f"{row.decision_log_bytes_per_batch:.0f}",
            str(row.changes),
            f"{row.tasks_moved:,}",
        )
    return made


@app.command("migration")
def migration(
    state: Annotated[str, _STATE] = "small",
    mechanisms: Annotated[str | None, _MECHANISMS] = None,
    posts_a_second: Annotated[float, typer.Option("--posts-a-second")] = 500.0,
    service_us: Annotated[float, _SERVICE] = 550.0,
    trigger_s: Annotated[float, typer.Option("--trigger-s")] = 1.0,
    in_memory: Annotated[bool, _MEMORY] = False,
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
    share_picture: Annotated[Path | None, _SHARES] = None,
) -> None:
    """Compare ways to add and to take away an executor of a running stateful stream.

    The same steady stream is scaled from 2 to 3 executors and back under every mechanism, and
    every word's count is checked at the end of each run. The exit code is 0 only where all runs
    ended and were exact. A few megabytes of state take about two minutes a mechanism; --state
    large (half a gigabyte) about three.

      elastream bench migration --json migration.json --picture migration.png
      elastream bench migration --state both --mechanisms live,pause,restart
    """
    from rich.console import Console

    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet, line_of_failure
    from elastream.cli.run_summaries import checked_picture, checked_target, write_summary
    from elastream_lab.benchmarks.migration.bench import BenchSettings, run_benchmark
    from elastream_lab.benchmarks.migration.mechanisms import MECHANISMS

    names = MECHANISMS if mechanisms is None else tuple(filter(None, mechanisms.split(",")))
    settings = BenchSettings(
        states=_states(state),
        mechanisms=tuple(name.strip() for name in names),
        posts_a_second=posts_a_second,
        service_us=service_us,
        trigger_s=trigger_s,
        in_memory=in_memory,
    )
    checked_picture("--picture", picture)
    checked_picture("--share-picture", share_picture)
    checked_target("--json", json_file)
    console = Console()
    began = time.monotonic()
    results: list[BenchResult] = []
    errors: list[str] = []

    def say(line: str) -> None:
        console.print(f"{time.monotonic() - began:5.0f} s  {line}", highlight=False)

    def told() -> dict[str, object]:
        runs = {"runs": [result.as_json() for result in results]}
        return {**runs, "error": "; ".join(errors)} if errors else {**runs}

    try:
        with ended_like_by_ctrl_c(), java_kept_quiet():
            run_benchmark(settings, say=say, done=results.append, failed=errors.append)
    except BaseException as error:
        errors.append(line_of_failure(error))
        write_summary(json_file, told())
        raise
    Console(width=max(console.width, _TABLE_WIDTH)).print(table(results))
    for error_line in errors:
        console.print(error_line, style="red")
    write_summary(json_file, told())
    if results:
        from elastream_lab.benchmarks.migration.picture import draw_figure, draw_shares

        for draw, target in ((draw_figure, picture), (draw_shares, share_picture)):
            if target is not None:
                draw(results, target)
    if errors or not all(result.exact for result in results):
        raise typer.Exit(BROKEN)


def _states(state: str) -> tuple[str, ...]:
    from elastream.model.errors import ProblemError
    from elastream_lab.benchmarks.migration.bench import STATES

    if state == "both":
        return tuple(STATES)
    if state not in STATES:
        raise ProblemError("--state", f"{state} is none of {', '.join(STATES)}, both")
    return (state,)


def table(results: Sequence[BenchResult]) -> Table:
    """Return the figures for people, a row for each mechanism and direction."""
    from rich.table import Table

    made = Table(title="times in seconds; response: median / p99 / worst of the rows due then")
    for name in ("state", "mechanism", ""):
        made.add_column(name)
    for name in (
        "batch\nbefore",
        "worst\nbatch",
        "ratio",
        "response\nbefore",
        "response\nduring",
        "response\nafter",
        "parti-\ntions",
        "MB\nmoved",
        "batches to\nbalance",
        "worst\npreparing",
        "exact",
    ):
        made.add_column(name, justify="right")
    for result in results:
        made.add_row(*_cells(result))
    return made


def _cells(result: BenchResult) -> tuple[str, ...]:
    figures = result.figures
    before = figures.median_batch_ms_before
    spreads = (figures.response_before, figures.response, figures.response_after)
    preparing = figures.worst_preparation_ms
    balanced = figures.batches_until_balanced
    return (
        result.state,
        result.change.mechanism,
        result.change.direction,
        f"{before / 1000:.2f}",
        f"{figures.worst_batch_ms / 1000:.2f}",
        f"{figures.worst_batch_ms / before:.2f}",
        *(
            "-" if s is None else "/".join(f"{ms / 1000:.1f}" for ms in (s.median, s.p99, s.worst))
            for s in spreads
        ),
        str(figures.partitions_moved),
        f"{figures.state_bytes_moved / 1e6:.1f}",
        "never" if balanced is None else str(balanced),
        "-" if preparing is None else f"{preparing / 1000:.2f}",
        "yes" if result.exact else "NO",
    )
