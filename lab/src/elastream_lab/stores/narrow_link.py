"""A link of known width between Spark and a server on this machine, in a process of its own.

What either side sends is passed on, all connections together at this rate, each direction for
itself, as on a network. A message waits until those before it would have gone through the link; so
the rate holds over any time longer than the burst, which is what goes through in 20 ms. Without a
rate it only counts. How many bytes went each way is appended to a file, five times a second.

Started as ``python -m elastream_lab.stores.narrow_link`` with what is wanted as a line of JSON on
standard input; it prints its port, and ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elastream.model.errors import SparkError

_LOOPBACK: Final = "127.0.0.1"
_BURST_S: Final = 0.02
_PIECE: Final = 64 << 10
_SAMPLE_S: Final = 0.2
_END_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Sample:
    """How many bytes had gone through a link at a moment."""

    at_ms: float
    """In milliseconds since the epoch."""
    up: int
    """To the server."""
    down: int
    """From it."""


@contextmanager
def narrow_link(port: int, samples: Path, *, bytes_per_s: float | None) -> Iterator[int]:
    """Give the port of a link to a port of this machine."""
    with subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None  # noqa: S101 - asked for above
        assert process.stdout is not None  # noqa: S101 - asked for above
        wanted = {"port": port, "samples": str(samples), "bytes_per_s": bytes_per_s}
        process.stdin.write(json.dumps(wanted) + "\n")
        process.stdin.flush()
        try:
            answer = process.stdout.readline().strip()
            if not answer.isdigit():
                raise SparkError("the link to the object store did not start")
            yield int(answer)
        finally:
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()


def read_samples(path: Path) -> tuple[Sample, ...]:
    """Return what has been written so far; a torn last line is passed over."""
    lines = path.read_text().splitlines(keepends=True)
    words = [line.split() for line in lines if line.endswith("\n")]
    return tuple(Sample(float(at), int(up), int(down)) for at, up, down in words)


def passed_between(samples: Sequence[Sample], begin_ms: float, end_ms: float) -> tuple[int, int]:
    """Return how many bytes went to the server and from it between two moments."""
    within = [sample for sample in samples if begin_ms <= sample.at_ms <= end_ms]
    if not within:
        return 0, 0
    return within[-1].up - within[0].up, within[-1].down - within[0].down


def peak_bytes_per_s(samples: Sequence[Sample]) -> float:
    """Return the most that went through in one direction, over at least a second."""
    peak, first = 0.0, 0
    for last in samples:
        while samples[first + 1 : first + 2] and (last.at_ms - samples[first + 1].at_ms >= 1000):
            first += 1
        span_s = (last.at_ms - samples[first].at_ms) / 1000
        if span_s >= 1:
            most = max(last.up - samples[first].up, last.down - samples[first].down)
            peak = max(peak, most / span_s)
    return peak


class _Way:
    """One direction of the link."""

    def __init__(self, bytes_per_s: float | None) -> None:
        self._rate = bytes_per_s
        self._lock = threading.Lock()
        self._free_s = 0.0
        """When the link has passed on all that was said so far, by the monotonic clock."""
        self.passed = 0

    def wait_for(self, size: int) -> None:
        """Return when this many bytes more have gone through."""
        with self._lock:
            self.passed += size
            if self._rate is None:
                return
            now = time.monotonic()
            self._free_s = max(self._free_s, now - _BURST_S) + size / self._rate
            wait_s = self._free_s - now
        if wait_s > 0:
            time.sleep(wait_s)


def _pass_on(one: socket.socket, other: socket.socket, way: _Way) -> None:
    with contextlib.suppress(OSError):
        while said := one.recv(_PIECE):
            way.wait_for(len(said))
            other.sendall(said)
    with contextlib.suppress(OSError):
        other.shutdown(socket.SHUT_WR)


def _connect(near: socket.socket, port: int, up: _Way, down: _Way) -> None:
    with near, socket.create_connection((_LOOPBACK, port)) as far:
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_pass_on, args=(far, near, down), daemon=True)
        back.start()
        _pass_on(near, far, up)
        back.join()


def _accept(server: socket.socket, port: int, up: _Way, down: _Way) -> None:
    while True:
        near, _ = server.accept()
        threading.Thread(target=_connect, args=(near, port, up, down), daemon=True).start()


def _sample(path: Path, up: _Way, down: _Way) -> None:
    with path.open("a", buffering=1) as file:
        while True:
            file.write(f"{time.time() * 1000:.0f} {up.passed} {down.passed}\n")
            time.sleep(_SAMPLE_S)


def _main() -> None:
    wanted = json.loads(sys.stdin.readline())
    up, down = _Way(wanted["bytes_per_s"]), _Way(wanted["bytes_per_s"])
    server = socket.create_server((_LOOPBACK, 0), backlog=512)
    for target, arguments in (
        (_accept, (server, wanted["port"], up, down)),
        (_sample, (Path(wanted["samples"]), up, down)),
    ):
        threading.Thread(target=target, args=arguments, daemon=True).start()
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us to handle
    _main()
