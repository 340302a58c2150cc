"""Queries of an application that other applications may take over, each listening on its own.

:func:`offer` starts a declared query in a session, :func:`take` takes one over from another
application; from then on both are the same: the query runs, its adaptation is up to whatever is
attached to the session, and a next application may take it over. Each query has a folder, an
address, a token and a thread of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.atomic_io import make_folder
from elastream.handover.certificates import certificate_of
from elastream.handover.events import Timing
from elastream.handover.folders import begin_stay, given, taken
from elastream.handover.ledger import Note, OwnershipLog, RecordFile
from elastream.handover.origin import expect_unyielded
from elastream.handover.seal import read_token
from elastream.handover.session import Onward, hand_over, take_over
from elastream.handover.target import Left
from elastream.handover.transport import Address, OriginServer, TargetLink
from elastream.model.checks import non_negative
from elastream.model.errors import ProblemError, SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream.handover.spark.origin_stream import OriginStream
    from elastream.handover.spark.target_stream import TargetStream
    from elastream.handover.spark.windowed import WindowedQuery

_LOOK_S: Final = 0.5


class OfferedQuery:
    """A query that runs here, and that another application may take over."""

    def __init__(
        self,
        stream: OriginStream,
        folder: Path,
        address: Address,
        token_file: Path,
        run: Callable[[threading.Event], None],
        held: ExitStack,
    ) -> None:
        """Use :func:`offer` or :func:`take`."""
        self.folder = folder
        """Its checkpoint, records, log and, by default, token and results."""
        self.address = str(address)
        """Where the next application asks for it."""
        self.token_file = token_file
        """What the next application needs for that."""
        self._stream, self._held = stream, held
        self._stop, self._ended = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._is_over = False
        threading.Thread(
            target=self._run, args=(run,), name=f"handover {self.name}", daemon=True
        ).start()

    @property
    def name(self) -> str:
        """Name of the query, here and in Spark."""
        return str(self._stream.name)

    @property
    def is_over(self) -> bool:
        """Whether the query has left: another application has it, and all is written here."""
        return self._is_over

    @property
    def late_rows(self) -> int:
        """Number of rows dropped because they were later than the query allows."""
        return self._stream.late_rows

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the query has left or was stopped; ``False`` at the timeout.

        Raises ``SparkError`` if the query failed, or was not handed over to here.
        """
        if not self._ended.wait(timeout_s):
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def stop(self) -> None:
        """Stop the query and listen no more; started again, it continues from its folder."""
        self._stop.set()
        self._ended.wait()

    def _run(self, run: Callable[[threading.Event], None]) -> None:
        """Run the protocol until it is over or the query ends, and end the other one too."""
        watching = threading.Thread(target=self._watch, name=f"handover watch {self.name}")
        watching.start()
        try:
            run(self._stop)
            self._is_over = not self._stop.is_set()
        except BaseException as error:
            self._stream.gate.fail(str(error))
            self._failure = error
        self._stop.set()
        watching.join()
        try:
            self._end_query()
        except Exception as error:  # the session may be gone
            self._failure = self._failure or error
        finally:
            self._held.close()
            self._ended.set()

    def _end_query(self) -> None:
        from elastream.spark.observe.endings import ending

        streaming, ended = self._stream.streaming, None
        if streaming is not None:  # asked before it is stopped, which may cut a batch short
            ended = streaming.exception()
        self._stream.stop()
        if self._failure is None and ended is not None:
            raise SparkError(f"the query has ended: {ending(ended)}")

    def _watch(self) -> None:
        """End the protocol when the query has ended."""
        while not self._stop.wait(_LOOK_S):
            if self._stream.has_ended:
                self._stop.set()


def offer(
    query: WindowedQuery,
    folder: str | Path,
    *,
    spark: SparkSession | None = None,
    address: str = "127.0.0.1:0",
    token_file: str | Path | None = None,
    patience_s: float = 60.0,
    on_event: Callable[[str], None] | None = None,
) -> OfferedQuery:
    """Start a declared query, or continue it from its folder, and let others take it over.

    ``spark`` is the active session by default. The token is made if it is not there. ``on_event``
    gets a line for each event of a handover. What cannot be handed over is refused here.
    """
    from elastream.handover.spark.origin_stream import OriginStream
    from elastream.handover.spark.target_stream import TargetStream

    timing, session = timing_of(patience_s), _checked(query, spark)
    with _Place(Path(folder), address, token_file, on_event) as place:
        kept = place.given.read()
        expect_unyielded(kept)
        begun = place.taken.read()
        if begun is not None and begun.state != "owns":
            why = (
                "is of a query that was not taken over yet; take it over there, or begin in another"
            )
            raise ProblemError(str(place.folder), why)
        if begun is not None:
            target = TargetStream(query, query.sink, place.folder, session)
            return place.offered(query, target, _taking(query, target, None, place, timing, None))
        origin = OriginStream(query, query.sink, place.folder)
        origin.name = query.shape.name
        if kept is not None and kept.state == "committed" and kept.boundary is not None:
            origin.stop_after(kept.boundary)  # before the first batch
        if kept is None or not kept.finished:
            _start(query, origin, session)

        def run(stop: threading.Event) -> None:
            hand_over(
                origin, query.shape, place.server, place.given,
                log=place.log, stop=stop, timing=timing,
            )  # fmt: skip

        return place.offered(query, origin, run)


def take(
    query: WindowedQuery,
    origin: str,
    origin_token: str | Path,
    folder: str | Path,
    *,
    spark: SparkSession | None = None,
    since_ms: int | None = None,
    origin_record: str | Path | None = None,
    address: str = "127.0.0.1:0",
    token_file: str | Path | None = None,
    patience_s: float = 60.0,
    on_event: Callable[[str], None] | None = None,
) -> OfferedQuery:
    """Take a query over from the application that offers it at ``origin``, and offer it onward.

    Inputs are read from now on, or from ``since_ms`` on. ``origin_record`` is the path of the
    origin's record, where its file can be read. A folder that the query has left before can be used
    again.
    """
    from elastream.handover.spark.target_stream import TargetStream

    timing, where = timing_of(patience_s), Address.of(origin)
    link, session = TargetLink.of(where, Path(origin_token)), _checked(query, spark)
    record = None if origin_record is None else RecordFile(Path(origin_record))
    with _Place(Path(folder), address, token_file, on_event) as place:
        expect_unyielded(place.given.read())
        begin_stay(place.folder)
        if _has_begun_here(place):
            why = "has the query's own checkpoint, which was not taken over; give another folder"
            raise ProblemError(str(place.folder), why)
        target = TargetStream(query, query.sink, place.folder, session, since_ms=since_ms)
        place.held.callback(link.close)
        return place.offered(query, target, _taking(query, target, link, place, timing, record))


def timing_of(patience_s: float, field: str = "patience_s") -> Timing:
    """Return the timeouts for a patience in seconds."""
    usual = Timing()
    patience_ms = int(non_negative(field, patience_s) * 1000)
    if patience_ms < usual.repeat_ms:
        why = (
            f"{patience_s:g} is below {usual.repeat_ms / 1000:g}, after which messages are repeated"
        )
        raise ProblemError(field, why)
    return Timing(patience_ms=patience_ms, reach_ms=max(usual.reach_ms, patience_ms))


class _Place:
    """The folder of a query, locked, with its log, its token and its listener."""

    def __init__(
        self,
        folder: Path,
        address: str,
        token_file: str | Path | None,
        on_event: Callable[[str], None] | None,
    ) -> None:
        self.folder, self.given, self.taken = folder, given(folder), taken(folder)
        self.held = ExitStack()
        self._on_event = on_event
        self._token_file = folder / "token" if token_file is None else Path(token_file)
        self._address = Address.of(address)

    def __enter__(self) -> _Place:
        with self.held as held:  # released if anything fails
            try:
                make_folder(self.folder)
            except OSError as error:
                why = f"{self.folder} cannot be made: {error.strerror}"
                raise ProblemError("folder", why) from None
            held.enter_context(self.given.hold())
            self._lines = OwnershipLog(self.folder / "handover.jsonl")
            token = read_token(self._token_file, create=True)
            self.server = OriginServer(
                self._address,
                token,
                on_rejected=lambda why: self._say(f"refused: {why}"),
                tls=certificate_of(self._token_file, self._address.host),
            )
            held.callback(self.server.close)
            self.held = held.pop_all()
        self._say(f"listening on {self.server.address}, token in {self._token_file}")
        return self

    def __exit__(self, *_: object) -> None:
        self.held.close()  # empty once the query runs

    def log(self, note: Note) -> None:
        """Write a line of the ownership log."""
        self._lines.append(note, at_ms=time.time_ns() // 1_000_000)
        self._say(f"{note.kind}: {note.reason}")

    def offered(
        self, query: WindowedQuery, stream: OriginStream, run: Callable[[threading.Event], None]
    ) -> OfferedQuery:
        """Run the protocol of a query that has been started, or that the protocol starts."""
        stream.name = query.shape.name
        held = self.held.pop_all()
        return OfferedQuery(stream, self.folder, self.server.address, self._token_file, run, held)

    def _say(self, line: str) -> None:
        if self._on_event is not None:
            self._on_event(line)


def _taking(
    query: WindowedQuery,
    target: TargetStream,
    link: TargetLink | None,
    place: _Place,
    timing: Timing,
    origin_record: RecordFile | None,
) -> Callable[[threading.Event], None]:
    """Return what takes the query over, or continues one that was, and hands it on."""
    onward = Onward(target, place.server, place.given)

    def run(stop: threading.Event) -> None:
        machine = take_over(
            target, query.shape, link, place.taken, log=place.log, stop=stop, timing=timing,
            origin_record=origin_record, onward=onward,
        )  # fmt: skip
        if isinstance(machine.phase, Left):
            raise SparkError(f"nothing was handed over: {machine.phase.why}")

    return run


def _checked(query: WindowedQuery, spark: SparkSession | None) -> SparkSession:
    """Return the session; refuse a query that cannot be handed over."""
    from pyspark.sql import SparkSession

    from elastream.handover.spark.declared import expect_declared, expect_handable

    expect_declared(query)
    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise ProblemError("spark", "there is no active session; give one")
    expect_handable(query, session)
    return session


def _start(query: WindowedQuery, stream: OriginStream, session: SparkSession) -> None:
    """Start a query; what Spark refuses is one line."""
    from pyspark.errors import PySparkException

    try:
        stream.start(session)
    except PySparkException as error:
        why = str(error).strip().splitlines()[0]
        raise ProblemError(f"query {query.shape.name!r}", why) from None


def _has_begun_here(place: _Place) -> bool:
    """Return whether the folder's checkpoint began with the first row, not with a handover."""
    checkpoint, start = place.folder / "checkpoint", place.folder / "start.json"
    return checkpoint.exists() and not start.exists() and place.taken.read() is None
