"""``elastream bench``: benchmarks on real executors, and of the loop at sizes no machine has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream_lab.cli.bench_elasticity import elasticity
from elastream_lab.cli.bench_failure import failure
from elastream_lab.cli.bench_peers import peers
from elastream_lab.cli.bench_realtime import realtime
from elastream_lab.cli.bench_relief import relief
from elastream_lab.cli.bench_sweep import sweep
from elastream_lab.cli.bench_transfer import transfer
from elastream_lab.cli.state_sizes import STATE, states_of
from elastream_lab.cli.trials import run_trials

if TYPE_CHECKING:
    from rich.table import Table

    from elastream_lab.benchmarks.control.simulated import ControlRow, ControlSize
    from elastream_lab.benchmarks.migration.bench import BenchResult
    from elastream_lab.harness.response_time import Spread


app = typer.Typer(
    help="Measure on this machine, which should run nothing else.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("peers")(peers)
app.command("elasticity")(elasticity)
app.command("failure")(failure)
app.command("realtime")(realtime)
app.command("relief")(relief)
app.command("sweep")(sweep)
app.command("transfer")(transfer)

_TABLE_WIDTH = 200
"""What the table needs, also where the output is not a terminal."""
_MECHANISMS = typer.Option(
    "--mechanisms",
    help="Which ones, with commas between: stock, live, live-plain, live-cold, live-spare, "
    "all-at-once, progressive, pause, restart. Left out: all.",
)
_EXECUTORS = typer.Option("--executors", help="FEWER,MORE: between which sizes is changed.")
_PARTITION = typer.Option(
    "--partition-mb", help="Megabytes of state in each partition, in place of --state."
)
_HOT = typer.Option("--hot-share", help="Which part of the state the stream updates, 0 to 1.")
_WORK = typer.Option("--work", help="How the time that a word costs passes: slept or burnt.")
_REPEATS = typer.Option("--repeats", help="How often each mechanism runs.")
_SERVICE = typer.Option(
    "--service-us",
    help="Microseconds that a word costs where its state is. Left out: such that the fewer "
    "executors are busy.",
)
_MASTER = typer.Option("--master", help="The Spark master; left out: an embedded cluster.")
_MEMORY = typer.Option("--in-memory", help="Keep checkpoints in memory-backed storage.")
_STORE = typer.Option(
    "--store",
    help="Where checkpoints are: local, or s3 (a server of this machine, by S3A; see make store).",
)
_STORE_RATE = typer.Option(
    "--store-mb-per-s",
    help="Megabytes a second to and from the S3 server. Left out: not bounded.",
)
_PARTS = typer.Option("--parts", help="The folder with the S3 server, as make store makes it.")
_JSON = typer.Option("--json", help="Write the figures as JSON.")
_SIZES = typer.Option(
    "--sizes",
    help="EXECUTORSxTASKSxQUERIES or EXECUTORSxTASKSxQUERIESxOPERATORS, with commas between. Left "
    "out: from 10x200x1 to 1000x20000x50x3.",
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
    """Time the loop on a simulated cluster of growing size.

    How much CPU time a step and a plan take, the memory of the process and the growth of the
    decision log, each size in a process of its own, through scale-outs and scale-ins. Then the
    calls into Spark's JVM are timed on a real session, which the simulation does without.

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

    def report(error: str | None = None) -> dict[str, object]:
        found: dict[str, object] = {"rows": [row.as_json() for row in rows]}
        if costs:
            found["jvm"] = costs[0].as_json()
        return found if error is None else {**found, "error": error}

    def say(line: str) -> None:
        console.print(line, highlight=False)

    with failure_written(json_file, report), ended_like_by_ctrl_c(), java_kept_quiet():
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
    write_summary(json_file, report())


def _size(text: str) -> ControlSize:
    from elastream.model.errors import ProblemError
    from elastream_lab.benchmarks.control.simulated import ControlSize

    parts = text.strip().split("x")
    if len(parts) not in (3, 4) or not all(part.isdigit() for part in parts):
        wrong = f"{text!r} must be EXECUTORSxTASKSxQUERIES or EXECUTORSxTASKSxQUERIESxOPERATORS"
        raise ProblemError("--sizes", wrong)
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
        "operators",
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
            str(row.operators),
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
    state: Annotated[str, STATE] = "small",
    partition_mb: Annotated[int | None, _PARTITION] = None,
    mechanisms: Annotated[str | None, _MECHANISMS] = None,
    executors: Annotated[str, _EXECUTORS] = "2,3",
    hot_share: Annotated[float, _HOT] = 0.2,
    work: Annotated[str, _WORK] = "slept",
    repeats: Annotated[int, _REPEATS] = 1,
    posts_a_second: Annotated[float, typer.Option("--posts-a-second")] = 500.0,
    service_us: Annotated[float | None, _SERVICE] = None,
    trigger_s: Annotated[float, typer.Option("--trigger-s")] = 1.0,
    master: Annotated[str | None, _MASTER] = None,
    in_memory: Annotated[bool, _MEMORY] = False,
    store: Annotated[str, _STORE] = "local",
    store_mb_per_s: Annotated[float | None, _STORE_RATE] = None,
    parts: Annotated[Path, _PARTS] = Path(".components"),
    json_file: Annotated[Path | None, _JSON] = None,
    picture: Annotated[Path | None, _PICTURE] = None,
    share_picture: Annotated[Path | None, _SHARES] = None,
) -> None:
    """Compare ways to add and remove executors of a running stream.

    The same steady stream is scaled out and in again under every mechanism, and every word's count
    is checked at the end of each run. A change is measured from the moment it was asked for until
    the query is steady again. The exit code is 0 only where all runs ended and were exact. A run
    takes two to four minutes. Executors of a master of your own must see this machine's folder for
    temporary files.

      elastream bench migration --json migration.json --picture migration.png
      elastream bench migration --state 64M --mechanisms live,pause --work burnt --repeats 3
      elastream bench migration --partition-mb 350 --executors 1,2 --mechanisms live,live-plain
      elastream bench migration --store s3 --store-mb-per-s 50 --mechanisms live,live-plain
    """
    from elastream.cli.run_summaries import checked_picture, checked_target
    from elastream_lab.benchmarks.migration.bench import BenchSettings, run_benchmark
    from elastream_lab.benchmarks.migration.mechanisms import MECHANISMS
    from elastream_lab.stores.installation import installed_store

    names = MECHANISMS if mechanisms is None else tuple(filter(None, mechanisms.split(",")))
    settings = BenchSettings(
        states=states_of(state) if partition_mb is None else _parted(partition_mb, executors),
        mechanisms=tuple(name.strip() for name in names),
        executors=_executors(executors),
        hot_share=hot_share,
        work=work,
        repeats=repeats,
        posts_a_second=posts_a_second,
        service_us=service_us,
        trigger_s=trigger_s,
        master=master,
        in_memory=in_memory,
        store=store,
        store_mb_per_s=store_mb_per_s,
        parts=parts,
    )
    if settings.store == "s3":
        installed_store(settings.parts)
    checked_picture("--picture", picture)
    checked_picture("--share-picture", share_picture)
    checked_target("--json", json_file)

    def run(
        say: Callable[[str], None],
        done: Callable[[BenchResult], None],
        failed: Callable[[str], None],
    ) -> None:
        run_benchmark(settings, say=say, done=done, failed=failed)

    def draw(results: Sequence[BenchResult]) -> None:
        from elastream_lab.benchmarks.migration.picture import draw_figure, draw_shares

        for drawn, target in ((draw_figure, picture), (draw_shares, share_picture)):
            if target is not None:
                drawn(results, target)

    run_trials(
        run,
        settings.as_json(),
        table=table,
        width=_TABLE_WIDTH,
        note=f"a word cost {settings.word_us:g} µs, {settings.work} in place of work; the state is "
        f"ballast, and the stream updates {settings.hot_share:.0%} of it",
        json_file=json_file,
        draw=draw,
    )


def _parted(partition_mb: int, executors: str) -> tuple[int, ...]:
    from elastream.model.checks import count
    from elastream_lab.benchmarks.migration.bench import partitions_of

    size = count("--partition-mb", partition_mb, least=1)
    return (size * 1_000_000 * partitions_of(_executors(executors)),)


def _executors(text: str) -> tuple[int, int]:
    from elastream.model.checks import abbreviate
    from elastream.model.errors import ProblemError

    parts = re.fullmatch(r"\s*(\d{1,4})\s*,\s*(\d{1,4})\s*", text)
    if parts is None:
        raise ProblemError("--executors", f"{abbreviate(text)} must be FEWER,MORE, such as 2,3")
    return int(parts[1]), int(parts[2])


def table(results: Sequence[BenchResult]) -> Table:
    """Return the figures for people, a row for each mechanism and direction.

    Where a mechanism ran more than once a figure is the median, and in brackets its range.
    """
    from rich.table import Table

    from elastream_lab.benchmarks.migration.repeats import grouped

    made = Table(
        title="from the moment a change was asked for until the query was steady again; seconds; "
        "rows wait: median / p99, of the change also the worst"
    )
    for name in ("state", "mechanism", ""):
        made.add_column(name)
    for name in (
        "steady\nbatch",
        "steady\nworst",
        "worst\nbatch",
        "ratio",
        "added\np99",
        "longest\ngap",
        "asked to\nsettled",
        "rows wait\nsteady",
        "rows wait\nchange",
        "rows wait\nafter",
        "rows\nlate",
        "worst\npreparing",
        "worst\nmoving",
        "MB\nmoved",
        "batches to\nbalance",
        "exact",
    ):
        made.add_column(name, justify="right", overflow="fold")
    for repeats in grouped(results, lambda result: result.case).values():
        made.add_row(*_cells(repeats))
    return made


def _cells(repeats: Sequence[BenchResult]) -> tuple[str, ...]:
    from elastream_lab.benchmarks.migration.repeats import over

    every = [result.figures for result in repeats]
    first = repeats[0]

    def cell(values: Iterable[float | None], digits: int = 1, unit: float = 1000.0) -> str:
        found = over(None if value is None else value / unit for value in values)
        return "-" if found is None else found.text(digits)

    def waits(spreads: Sequence[Spread | None], *names: str) -> str:
        return "/".join(
            cell([None if s is None else getattr(s, name) for s in spreads]) for name in names
        )

    settled = cell((f.asked_to_settled_s for f in every), unit=1.0)
    balanced = cell((f.batches_until_balanced for f in every), digits=0, unit=1.0)
    return (
        first.state,
        first.change.mechanism,
        first.change.direction,
        cell((f.steady_batch_ms for f in every), digits=2),
        cell((f.steady_worst_batch_ms for f in every), digits=2),
        cell((f.worst_batch_ms for f in every), digits=2),
        cell((f.worst_batch_ms / f.steady_batch_ms for f in every), digits=2, unit=1.0),
        cell((f.added_p99_ms for f in every), digits=2),
        cell((f.longest_gap_ms for f in every), digits=2),
        settled if all(f.steady_again for f in every) else f"{settled} not steady",
        waits([f.steady for f in every], "median", "p99"),
        waits([f.change for f in every], "median", "p99", "worst"),
        waits([f.after for f in every], "median", "p99"),
        cell((f.rows_late for f in every), digits=0, unit=1.0),
        cell((f.preparation.worst_batch_ms for f in every), digits=2),
        cell((f.moving.worst_batch_ms for f in every), digits=2),
        cell((f.state_bytes_moved for f in every), unit=1e6),
        "never" if balanced == "-" else balanced,
        "yes" if all(result.exact for result in repeats) else "NO",
    )
