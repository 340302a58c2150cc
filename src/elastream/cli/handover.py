"""``elastream handover serve | join``: a windowed query goes from one application to another.

Each command is an application of its own: a driver, its executors, the query. ``serve`` runs the
query and hands it over to whoever joins with the token; ``join`` takes it over and goes on.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.cli.extras import what_to_install
from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
from elastream.model.checks import amount, shown
from elastream.model.errors import ProblemError, SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream.handover.events import Timing
    from elastream.handover.ledger import Note
    from elastream.model.handover import Boundary
    from elastream.spark.handover.origin_stream import OriginStream
    from elastream.spark.handover.target_stream import TargetStream
    from elastream.spark.handover.windowed import WindowedQuery

    Session = AbstractContextManager[SparkSession]

__all__ = ["app"]

app = typer.Typer(
    help="""Hand a windowed query over to another application, without moving its state.

QUERY is module:function, a function of yours that returns a WindowedQuery; both sides give the
same one. FOLDER keeps the side's checkpoint, record, log and results.

  elastream handover serve my_queries:sums --folder origin --address 127.0.0.1:7077
  elastream handover join my_queries:sums 127.0.0.1:7077 --folder target --token-file origin/token
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)

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
) -> None:
    """Run the query, and hand it over to a target that joins.

    Ends when the target has taken over and the last window is put out. The log in the folder says
    who owns which windows; started again, the query goes on where it was.
    """
    from elastream.handover.ledger import RecordFile
    from elastream.handover.seal import read_token
    from elastream.handover.session import hand_over
    from elastream.handover.transport import Address, OriginServer
    from elastream.spark.sessions.application_session import application_session

    windowed, timing = _query(query), _timing(patience)
    where = Address.of(address)
    _made(folder)
    token = read_token(token_file or folder / "token", create=True)
    log = _log(folder)
    server = OriginServer(where, token, turned_away=lambda why: typer.echo(f"refused: {why}"))
    typer.echo(f"listening on {server.address}, token in {token_file or folder / 'token'}")
    stop = threading.Event()
    records = RecordFile(folder / "record.json")
    kept = records.read()

    def run(stream: OriginStream) -> object:
        try:
            return hand_over(
                stream, windowed.shape, server, records, log=log, stop=stop, timing=timing
            )
        except BaseException as error:
            stream.gate.fail(str(error))
            raise

    try:
        committed = None if kept is None or kept.state != "committed" else kept.boundary
        session = application_session(master=master, executors=executors, partitions=partitions)
        _run_origin(windowed, folder, session, run, stop, committed)
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
    patience: Patience = 60.0,
    executors: Executors = 1,
    partitions: Partitions = 4,
    master: Master = None,
) -> None:
    """Take the query over and run it until it is stopped."""
    from elastream.handover.ledger import RecordFile
    from elastream.handover.seal import read_token
    from elastream.handover.session import take_over
    from elastream.handover.target import Left
    from elastream.handover.transport import Address, TargetLink
    from elastream.spark.sessions.application_session import application_session

    windowed, timing = _query(query), _timing(patience)
    token, where = read_token(token_file), Address.of(address)
    _made(folder)
    log = _log(folder)
    link = TargetLink(where, token)
    stop = threading.Event()
    theirs = None if origin_record is None else RecordFile(origin_record)

    def run(stream: TargetStream) -> object:
        records = RecordFile(folder / "record.json")
        target = take_over(
            stream, windowed.shape, link, records,
            log=log, stop=stop, timing=timing, origin_record=theirs,
        )  # fmt: skip
        if isinstance(target.phase, Left):
            raise SparkError(f"nothing was handed over: {target.phase.why}")
        return target

    try:
        session = application_session(master=master, executors=executors, partitions=partitions)
        _run_target(windowed, folder, session, run, stop)
    finally:
        link.close()


def _query(name: str) -> WindowedQuery:
    from elastream.spark.handover.windowed import WindowedQuery

    module, _, function = name.partition(":")
    if not module or not function:
        raise ProblemError("QUERY", f"{shown(name)} is not module:function")
    try:
        made = getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError) as error:
        if isinstance(error, ImportError) and what_to_install(error):
            raise
        raise ProblemError("QUERY", f"{shown(name)} cannot be found: {error}") from None
    if not isinstance(made, WindowedQuery):
        raise ProblemError("QUERY", f"{shown(name)} gives {shown(made)}, not a WindowedQuery")
    return made


def _timing(patience_s: float) -> Timing:
    from elastream.handover.events import Timing

    usual = Timing()
    patience_ms = int(amount("--patience", patience_s) * 1000)
    if patience_ms < usual.repeat_ms:
        why = (
            f"{patience_s:g} is below {usual.repeat_ms / 1000:g}, after which messages are repeated"
        )
        raise ProblemError("--patience", why)
    return Timing(patience_ms=patience_ms, reach_ms=max(usual.reach_ms, patience_ms))


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProblemError("--folder", f"{folder} cannot be made: {error.strerror}") from None
    return folder


def _log(folder: Path) -> Callable[[Note], None]:
    from elastream.handover.ledger import OwnershipLog

    log = OwnershipLog(folder / "handover.jsonl")

    def write(note: Note) -> None:
        log.append(note, at_ms=time.time_ns() // 1_000_000)
        typer.echo(f"{note.kind}: {note.reason}")

    return write


def _run_origin(
    windowed: WindowedQuery,
    folder: Path,
    session: Session,
    run: Callable[[OriginStream], object],
    stop: threading.Event,
    committed: Boundary | None,
) -> None:
    from elastream.spark.handover.origin_stream import OriginStream
    from elastream.spark.handover.windowed import json_lines

    with ended_like_by_ctrl_c(), java_kept_quiet(), session as spark:
        stream = OriginStream(windowed, json_lines(folder / "results"), folder)
        if committed is not None:  # before the first batch, and not only when the protocol runs
            stream.stop_after(committed)
        stream.start(spark)
        _beside(stream, lambda: run(stream), stop, windowed)


def _run_target(
    windowed: WindowedQuery,
    folder: Path,
    session: Session,
    run: Callable[[TargetStream], object],
    stop: threading.Event,
) -> None:
    from elastream.spark.handover.target_stream import TargetStream
    from elastream.spark.handover.windowed import json_lines

    with ended_like_by_ctrl_c(), java_kept_quiet(), session as spark:
        stream = TargetStream(windowed, json_lines(folder / "results"), folder, spark)
        _beside(stream, lambda: run(stream), stop, windowed)


def _beside(
    stream: OriginStream | TargetStream,
    act: Callable[[], object],
    stop: threading.Event,
    windowed: WindowedQuery,
) -> None:
    """Run the protocol beside the query, until one of them ends."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            act()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded, name="handover")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.5)
            if stream.streaming is not None and not stream.streaming.isActive:
                stop.set()
    finally:
        stop.set()
        thread.join()
        stream.stop()
        if stream.late_rows:
            allowed = f"later than the {windowed.shape.lateness} ms that the query allows"
            typer.echo(f"late: {stream.late_rows} rows came {allowed}, and were dropped")
    if failures:
        raise failures[0]
    ended = None if stream.streaming is None else stream.streaming.exception()
    if ended is not None:
        raise SparkError(f"the query has ended: {ended}")
