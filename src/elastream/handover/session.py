"""Run the protocol of a query: its stay, the connections and a clock, until it is over.

Meant for a thread next to the query. Both functions return the final machine. If they are stopped
early, the records on disk determine how to continue.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from elastream.handover.driver import OriginQuery, TargetQuery
from elastream.handover.events import Timing
from elastream.handover.ledger import Note, Record, RecordFile
from elastream.handover.messages import Abort, Commit, Message
from elastream.handover.model import QueryShape
from elastream.handover.origin import OriginMachine
from elastream.handover.seal import new_nonce
from elastream.handover.stay import Giving, Stay, Taking
from elastream.handover.target import Prepared, TargetMachine
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
        stay = Stay(
            shape,
            giving=Giving(query, records, server.send),
            name=new_nonce,
            log=log,
            timing=timing or Timing(),
        )
        _run(stay, None, server, stop)
        assert stay.origin is not None  # noqa: S101 - it begins with the stay
        return stay.origin.machine


@dataclass(frozen=True, slots=True)
class Onward:
    """How a query that was taken over is handed on."""

    query: OriginQuery
    server: OriginServer
    records: RecordFile


def take_over(
    query: TargetQuery,
    shape: QueryShape,
    link: TargetLink | None,
    records: RecordFile,
    *,
    log: Callable[[Note], None],
    stop: threading.Event,
    timing: Timing | None = None,
    origin_record: RecordFile | None = None,
    onward: Onward | None = None,
) -> TargetMachine:
    """Join, take over, and keep answering the origin until ``stop`` is set, or leave.

    With ``onward`` also until the query is handed on. Without ``link`` it was taken over before, by
    its record. ``origin_record``, if its file can be read from here, decides when the origin is
    dead.
    """
    giving = None
    if onward is not None:
        giving = Giving(onward.query, onward.records, onward.server.send)
    with records.hold():
        stay = Stay(
            shape,
            giving=giving,
            taking=Taking(query, records, _to_no_one if link is None else link.send),
            name=new_nonce,
            log=log,
            timing=timing or Timing(),
        )
        _run(stay, link, None if onward is None else onward.server, stop, origin_record)
        assert stay.target is not None  # noqa: S101 - it begins with the stay
        return stay.target.machine


def _to_no_one(message: Message) -> None:
    """Drop a message to an origin whose address is not known any more."""


def _run(
    stay: Stay,
    link: TargetLink | None,
    server: OriginServer | None,
    stop: threading.Event,
    origin_record: RecordFile | None = None,
) -> None:
    started = time.monotonic()
    while not stop.is_set() and not stay.is_over:
        stay.pass_time(int((time.monotonic() - started) * 1000))
        wait_s = _TURN_S
        if link is not None:
            message = link.receive(wait_s)
            if message is not None:
                stay.on_message_of_origin(message)
            wait_s = 0.0
        message = None if server is None else server.receive(wait_s)
        if message is not None:
            stay.on_message_of_target(message)
        elif link is None and server is None:
            stop.wait(_TURN_S)
        if origin_record is not None:
            _settle(stay, origin_record)


def _settle(stay: Stay, origin_record: RecordFile) -> None:
    """Answer for an origin that does not, by its record."""
    if stay.target is None:
        return
    machine = stay.target.machine
    if isinstance(machine.phase, Prepared) and machine.phase.in_doubt:
        settled = _settled(machine.handover, machine.phase, origin_record.read())
        if settled is not None:
            stay.on_message_of_origin(settled)


def _settled(handover: str, phase: Prepared, record: Record | None) -> Commit | Abort | None:
    """Return the origin's answer according to its record; ``None`` if it is undecided."""
    if record is None or record.handover != handover:
        return None
    if record.state == "committed" and record.boundary is not None:
        return Commit(handover, record.boundary)
    return Abort(handover, phase.term, record.why) if record.state == "aborted" else None
