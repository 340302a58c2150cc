"""Both sides of a handover as threads with real sockets, over streams that a test feeds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from elastream.handover.events import Timing
from elastream.handover.ledger import Note, RecordFile
from elastream.handover.model import QueryShape, Window
from elastream.handover.origin import OriginMachine
from elastream.handover.session import hand_over, take_over
from elastream.handover.target import TargetMachine
from elastream.handover.testing.handover import SimulatedOrigin, SimulatedTarget
from elastream.handover.testing.windows import Output, Row, Windowing
from elastream.handover.transport import Address, OriginServer, TargetLink

TOKEN = "a token that is long enough"
SHAPE = QueryShape("q", Window.of("time", 4, 2), 1)
QUICK = Timing(repeat_ms=50, patience_ms=1500)
PATIENT = Timing(repeat_ms=50, patience_ms=60_000)
ROWS = [Row(at, at) for at in range(60)]
CONNECTS_AT = 20


class Feed:
    """Gives both queries their rows, the target's from where it connects."""

    def __init__(self) -> None:
        self.origin, self.target = SimulatedOrigin(SHAPE), SimulatedTarget(SHAPE)
        for row in ROWS[:CONNECTS_AT]:
            self.origin.read(0, row)
        connect = self.target.connect

        def connect_and_read() -> None:
            connect()
            self.target.read(0, ROWS[CONNECTS_AT])

        self.target.connect = connect_and_read  # type: ignore[method-assign]

    def finish(self) -> list[Output]:
        for row in ROWS[CONNECTS_AT:]:
            self.origin.read(0, row)
        for row in ROWS[CONNECTS_AT + 1 :]:
            self.target.read(0, row)
        return self.origin.put_out + self.target.put_out


def uninterrupted() -> list[Output]:
    operator = Windowing(SHAPE)
    return [output for row in ROWS for output in operator.read(0, row)]


class Side:
    """A side's session in a thread of its own."""

    def __init__(self, run: Callable[[threading.Event], OriginMachine | TargetMachine]) -> None:
        self.stop = threading.Event()
        self.machine: OriginMachine | TargetMachine | None = None
        self._thread = threading.Thread(target=self._run, args=(run,))
        self._thread.start()

    def _run(self, run: Callable[[threading.Event], OriginMachine | TargetMachine]) -> None:
        self.machine = run(self.stop)

    def ended(self, *, stop: bool = True) -> OriginMachine | TargetMachine:
        if stop:
            self.stop.set()
        self._thread.join(60)
        assert self.machine is not None
        return self.machine


class Notes:
    """A log to wait on."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self._heard = threading.Condition()

    def __call__(self, note: Note) -> None:
        with self._heard:
            self.notes.append(note)
            self._heard.notify_all()

    def await_kind(self, kind: str) -> Note:
        def found() -> list[Note]:
            return [note for note in self.notes if note.kind == kind]

        with self._heard:
            assert self._heard.wait_for(found, 60), self.notes
            return found()[0]


@contextmanager
def serving(
    feed: Feed, tmp_path: Path, notes: Notes, timing: Timing = PATIENT
) -> Iterator[tuple[OriginServer, Side]]:
    server = OriginServer(Address(), TOKEN)
    records = RecordFile(tmp_path / "origin.json")
    side = Side(
        lambda stop: hand_over(
            feed.origin, SHAPE, server, records, log=notes, stop=stop, timing=timing
        )
    )
    try:
        yield server, side
    finally:
        side.ended()
        server.close()


def joining(
    feed: Feed,
    address: Address,
    tmp_path: Path,
    notes: Notes,
    *,
    token: str = TOKEN,
    shape: QueryShape = SHAPE,
    timing: Timing = PATIENT,
    origin_record: RecordFile | None = None,
) -> Side:
    link = TargetLink(address, token)
    records = RecordFile(tmp_path / "target.json")

    def run(stop: threading.Event) -> TargetMachine:
        try:
            return take_over(
                feed.target, shape, link, records,
                log=notes, stop=stop, timing=timing, origin_record=origin_record,
            )  # fmt: skip
        finally:
            link.close()

    return Side(run)
