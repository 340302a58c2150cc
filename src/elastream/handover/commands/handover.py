"""``elastream handover serve | join``: hand a windowed query over to another application.

Each command is an application of its own: a driver, its executors, the query.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.cli.options import Conf, settings_of
from elastream.cli.terminal import say
from elastream.core.decision_log import DecisionLog
from elastream.handover.commands.manage import manage
from elastream.handover.commands.sides import SideRun, ms_of, query_named, run_origin, run_target
from elastream.handover.events import Timing
from elastream.handover.ledger import Note, OwnershipLog, RecordFile
from elastream.handover.origin import expect_unyielded
from elastream.handover.seal import read_token
from elastream.handover.session import hand_over, take_over
from elastream.handover.target import Left
from elastream.handover.transport import Address, OriginServer, TargetLink
from elastream.model.checks import non_negative
from elastream.model.errors import ProblemError, SparkError

if TYPE_CHECKING:
    from elastream.handover.spark.origin_stream import OriginStream
    from elastream.handover.spark.target_stream import TargetStream


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
    address: Annotated[str, typer.Option(help="HOST:PORT; port 0 for any.")] = "127.0.0.1:0",
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
    the query continues where it stopped.
    """
    from elastream.handover.spark.application_session import application_session

    settings = settings_of(conf)
    _expect_log(log)
    windowed, timing = query_named(query), _timing(patience)
    where = Address.of(address)
    records = RecordFile(_made(folder) / "record.json")
    kept = records.read()
    expect_unyielded(kept)
    token = read_token(token_file or folder / "token", create=True)
    write = _writer(folder)
    server = OriginServer(where, token, on_rejected=lambda why: say(f"refused: {why}"))
    say(f"listening on {server.address}, token in {token_file or folder / 'token'}")
    stop = threading.Event()

    def run(stream: OriginStream) -> object:
        try:
            return hand_over(
                stream, windowed.shape, server, records, log=write, stop=stop, timing=timing
            )
        except BaseException as error:
            stream.gate.fail(str(error))
            raise

    try:
        committed = None if kept is None or kept.state != "committed" else kept.boundary
        session = application_session(
            master=master, executors=executors, partitions=partitions, config=settings
        )
        side = SideRun(windowed, folder, session, stop, executors, log)
        with records.hold():  # before the query starts: two on one checkpoint break each other
            run_origin(side, run, committed)
    finally:
        server.close()


@app.command("join")
def join(
    query: Query,
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where the origin listens.")],
    token_file: Annotated[Path, typer.Option(help="The origin's token.")],
    folder: Folder = Path("target"),
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
    """Take the query over and run it until it is stopped."""
    from elastream.handover.spark.application_session import application_session

    _expect_log(log)
    settings, since_ms = settings_of(conf), None if since is None else ms_of(since)
    windowed, timing = query_named(query), _timing(patience)
    token, where = read_token(token_file), Address.of(address)
    _made(folder)
    write = _writer(folder)
    link = TargetLink(where, token)
    stop = threading.Event()
    theirs = None if origin_record is None else RecordFile(origin_record)
    records = RecordFile(folder / "record.json")

    def run(stream: TargetStream) -> object:
        target = take_over(
            stream, windowed.shape, link, records,
            log=write, stop=stop, timing=timing, origin_record=theirs,
        )  # fmt: skip
        if isinstance(target.phase, Left):
            raise SparkError(f"nothing was handed over: {target.phase.why}")
        return target

    try:
        session = application_session(
            master=master, executors=executors, partitions=partitions, config=settings
        )
        side = SideRun(windowed, folder, session, stop, executors, log)
        with records.hold():
            run_target(side, run, since_ms)
    finally:
        link.close()


def _timing(patience_s: float) -> Timing:
    usual = Timing()
    patience_ms = int(non_negative("--patience", patience_s) * 1000)
    if patience_ms < usual.repeat_ms:
        why = (
            f"{patience_s:g} is below {usual.repeat_ms / 1000:g}, after which messages are repeated"
        )
        raise ProblemError("--patience", why)
    return Timing(patience_ms=patience_ms, reach_ms=max(usual.reach_ms, patience_ms))


def _expect_log(log: Path | None) -> None:
    """Reject a file that is not a decision log, before anything starts."""
    if log is not None:
        DecisionLog(log)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProblemError("--folder", f"{folder} cannot be made: {error.strerror}") from None
    return folder


def _writer(folder: Path) -> Callable[[Note], None]:
    log = OwnershipLog(folder / "handover.jsonl")

    def write(note: Note) -> None:
        log.append(note, at_ms=time.time_ns() // 1_000_000)
        say(f"{note.kind}: {note.reason}")

    return write
