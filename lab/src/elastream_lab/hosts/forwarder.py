"""The switch at work: a process that carries frames between the TAP devices of hosts.

``python -m elastream_lab.hosts.forwarder NAME ...`` makes a device for each name, says ``"ready"``,
and then takes one request a line on standard input, in JSON, and answers with one line. It ends
when its standard input does, and its devices go with it.

One thread does all: it sleeps until a host has sent something, a frame is due or a request comes.
It asks the kernel to run before all others, so that a delay is what was set also where the machine
is busy, and shows how late it was all the same (:mod:`~elastream_lab.hosts.lateness`).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from elastream_lab.hosts.lateness import LatenessNotes
from elastream_lab.hosts.switch import Switch
from elastream_lab.hosts.taps import HEADER_BYTES, LARGEST_FRAME, open_tap

_AT_ONCE: Final = 64
"""Frames read from a host before the others have their turn."""
_RANK: Final = 1
"""Of the ranks whose processes run whenever they can: the lowest."""
_REQUESTS: Final = 1 << 16


class _Forwarder:
    """The devices, and the switch between them."""

    def __init__(self, taps: Sequence[int]) -> None:
        self._taps = dict(enumerate(taps))
        self._switch = Switch(len(taps), skip=HEADER_BYTES)
        self._notes = LatenessNotes()
        self._asked = b""

    def run(self) -> None:
        """Carry frames until standard input ends."""
        requests = sys.stdin.fileno()
        while True:
            port_of = {tap: port for port, tap in self._taps.items()}
            ready, _, _ = select.select([requests, *port_of], [], [], self._rest_s())
            for file in ready:
                if file != requests:
                    self._read(port_of[file], file)
            self._pass_on()
            if requests in ready and not self._answer(os.read(requests, _REQUESTS)):
                return

    def _rest_s(self) -> float | None:
        due_s = self._switch.next_s
        return None if due_s is None else max(0.0, due_s - time.monotonic())

    def _read(self, port: int, tap: int) -> None:
        accept, clock = self._switch.accept, time.monotonic
        try:
            for _ in range(_AT_ONCE):
                accept(clock(), port, os.read(tap, LARGEST_FRAME))
        except BlockingIOError:
            return
        except OSError:  # the device has gone with its host
            del self._taps[port]

    def _pass_on(self) -> None:
        clock = time.monotonic
        for due_s, port, frame in self._switch.departures(clock()):
            with contextlib.suppress(OSError, KeyError):  # the device is down, or gone
                os.write(self._taps[port], frame)
            self._notes.note(clock() - due_s, len(frame) - HEADER_BYTES)

    def _answer(self, asked: bytes) -> bool:
        """Answer the requests that are whole; return whether more may come."""
        *lines, self._asked = (self._asked + asked).split(b"\n")
        for line in lines:
            print(json.dumps(self._done(json.loads(line))), flush=True)
        return bool(asked)

    def _done(self, asked: Mapping[str, Any]) -> object:
        if asked["ask"] == "tell":
            report, self._notes = self._notes.report(self._switch.dropped), LatenessNotes()
            self._switch.dropped = 0
            return asdict(report)
        acts: Mapping[str, Callable[..., None]] = {
            "delay": self._switch.delay,
            "limit": self._switch.limit,
            "cut": self._switch.cut,
            "mend": self._switch.mend,
        }
        return acts[asked["ask"]](*asked["of"])


def main(names: Sequence[str]) -> None:
    """Make the devices and carry frames."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us to handle
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_RANK))
    forwarder = _Forwarder([open_tap(name) for name in names])
    gc.disable()  # nothing here refers to itself; a pause would be a delay
    print(json.dumps("ready"), flush=True)
    forwarder.run()


if __name__ == "__main__":
    main(sys.argv[1:])
