"""``elastream handover serve | join``: hand a windowed query over to another application.

Each command is an application of its own: a driver, its executors, the query.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elastream.cli.options import Conf, settings_of
from elastream.cli.terminal import say
from elastream.core.decision_log import DecisionLog
from elastream.handover.commands.manage import manage
from elastream.handover.commands.sides import Side, ms_of, query_named
from elastream.handover.transport import Address, TargetLink

app = typer.Typer(
    help="""Hand a windowed query over to another application.

QUERY is module:function, a function of yours that returns a WindowedQuery; both sides give the
same one. FOLDER keeps the side's checkpoint, record, log and results.

  elastream handover serve my_queries:sums --folder origin --address 127.0.0.1:7077
  elastream handover join my_queries:sums 127.0.0.1:7077 --folder target --token-file origin/token

manage looks after several applications: which query should go where, and how.
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)

app.command("manage")(manage)

Query = Annotated[str, typer.Argument(metavar="QUERY", help="module:function")]
Folder = Annotated[Path, typer.Option(help="Where this side keeps what it must not forget.")]
Listen = Annotated[str, typer.Option(help="HOST:PORT where the next target asks; port 0 for any.")]
Patience = Annotated[float, typer.Option(help="Seconds after which a silent side is given up.")]
Executors = Annotated[int, typer.Option(min=1, help="How many executors this application has.")]

Partitions = Annotated[
    int, typer.Option(min=1, help="State partitions; the two sides may have different numbers.")
]

Master = Annotated[
    str | None,
    typer.Option(help="The Spark master, such as local[1]; without it, an embedded cluster."),
]

Log = Annotated[
    Path | None,
    typer.Option(help="Write what the query costs as a decision log, which manage reads."),
]


@app.command("serve")
def serve(
    query: Query,
    folder: Folder = Path("origin"),
    address: Listen = "127.0.0.1:0",
    token_file: Annotated[Path | None, typer.Option(help="Made if it is not there.")] = None,
    patience: Patience = 60.0,
    executors: Executors = 1,
    partitions: Partitions = 4,
    master: Master = None,
    conf: Conf = None,
    log: Log = None,
) -> None:
    """Run the query, and hand it over to a target that joins.

    Ends when the target has taken over and the last window is written, or when manage has requested
    the checkpoint. handover.jsonl in the folder records who owns which windows. If started again,
    the query continues where it stopped, also one that was taken over.
    """
    from elastream.handover.offering import offer, timing_of

    _expect_log(log)
    side = Side(query_named(query), folder, master, executors, partitions, settings_of(conf), log)
    timing_of(patience, "--patience")
    side.expect_usable(address, token_file)
    side.run(
        lambda spark: offer(
            side.query, folder, spark=spark, address=address, token_file=token_file,
            patience_s=patience, on_event=say,
        )
    )  # fmt: skip


@app.command("join")
def join(
    query: Query,
    origin: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where the origin listens.")],
    token_file: Annotated[Path, typer.Option(help="The origin's token.")],
    folder: Folder = Path("target"),
    address: Listen = "127.0.0.1:0",
    origin_record: Annotated[
        Path | None, typer.Option(help="The origin's record, where its file can be read.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Read the inputs from this time on, in ISO 8601 or ms since the epoch, also one "
            "behind the origin; without it, from now on. Its first start is kept with the folder."
        ),
    ] = None,
    patience: Patience = 60.0,
    executors: Executors = 1,
    partitions: Partitions = 4,
    master: Master = None,
    conf: Conf = None,
    log: Log = None,
) -> None:
    """Take the query over, and hand it on to a target that joins.

    Without one it runs until it is stopped.
    """
    from elastream.handover.offering import take, timing_of

    _expect_log(log)
    since_ms = None if since is None else ms_of(since)
    side = Side(query_named(query), folder, master, executors, partitions, settings_of(conf), log)
    timing_of(patience, "--patience")
    TargetLink.of(Address.of(origin), token_file)
    side.expect_usable(address, None)
    side.run(
        lambda spark: take(
            side.query, origin, token_file, folder, spark=spark, since_ms=since_ms,
            origin_record=origin_record, address=address, patience_s=patience, on_event=say,
        )
    )  # fmt: skip


def _expect_log(log: Path | None) -> None:
    """Reject a file that is not a decision log, before anything starts."""
    if log is not None:
        DecisionLog(log)
