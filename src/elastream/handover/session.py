"""Run a handover: a driver, a connection and a clock, until it is decided and done.

Meant for a thread next to the query. Both functions return the final machine. If they are stopped
early, the records on disk determine how to continue.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from elastream.handover.driver import OriginDriver, OriginQuery, TargetDriver, TargetQuery
from elastream.handover.events import Clock, Received, Timing
from elastream.handover.ledger import Note, Record, RecordFile
from elastream.handover.messages import Abort, Commit, Message
from elastream.handover.model import QueryShape
from elastream.handover.origin import OriginMachine
from elastream.handover.seal import new_nonce
from elastream.handover.target import Left, Prepared, TargetMachine
from elastream.handover.transport import OriginServer, TargetLink

_TURN_S: Final = 0.05


def hand_over(
    query: OriginQuery,
    shape: QueryShape,
    server: OriginServer,
    records: RecordFile,
    *,
    log: Callable[[Note], None],
    stop: threading.Event,
    timing: Timing | None = None,
) -> OriginMachine:
    """Serve targets until the query is handed over, confirmed and finished, or ``stop`` is set."""
    with records.hold():
        driver = OriginDriver(
            query, shape, new_nonce(), records, send=server.send, log=log, timing=timing
        )
        started = time.monotonic()
        while not stop.is_set() and not driver.machine.is_done:
            _handle_next(driver, server.receive(_TURN_S), started)
        return driver.machine


def take_over(
    query: TargetQuery,
    shape: QueryShape,
    link: TargetLink,
    records: RecordFile,
    *,
    log: Callable[[Note], None],
    stop: threading.Event,
    timing: Timing | None = None,
    origin_record: RecordFile | None = None,
) -> TargetMachine:
    """Join, take over, and keep answering the origin until ``stop`` is set, or leave.

    ``origin_record``, if its file can be read from here, decides when the origin is dead.
    """
    with records.hold():
        driver = TargetDriver(
            query, shape, new_nonce(), records, send=link.send, log=log, timing=timing
        )
        started = time.monotonic()
        while not stop.is_set() and not isinstance(driver.machine.phase, Left):
            _handle_next(driver, link.receive(_TURN_S), started)
            phase = driver.machine.phase
            if origin_record is not None and isinstance(phase, Prepared) and phase.in_doubt:
                settled = _settled(driver.machine.handover, phase, origin_record.read())
                if settled is not None:
                    driver.handle(Received(settled))
        return driver.machine


def _handle_next(
    driver: OriginDriver | TargetDriver, message: Message | None, started: float
) -> None:
    driver.handle(Clock(int((time.monotonic() - started) * 1000)))
    if message is not None:
        driver.handle(Received(message))


def _settled(handover: str, phase: Prepared, record: Record | None) -> Commit | Abort | None:
    """Return the origin's answer according to its record; ``None`` if it is undecided."""
    if record is None or record.handover != handover:
        return None
    if record.state == "committed" and record.boundary is not None:
        return Commit(handover, record.boundary)
    return Abort(handover, phase.term, record.why) if record.state == "aborted" else None
