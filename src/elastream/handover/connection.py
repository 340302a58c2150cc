"""A socket that carries lines: those of a stranger within a time, those of a peer for as long.

Whoever sends a byte now and then must not hold a place for ever, so a stranger's first line has a
deadline as a whole. A peer that is known may be silent for as long as it likes; the system asks now
and then whether its machine is still there. What is sent is taken within a time too: a peer that
reads nothing would otherwise keep the side that talks to it waiting.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Final

from elastream.handover.messages import Message
from elastream.handover.seal import LONGEST_LINE, Seal, WrongSealError

__all__ = ["TIMEOUT_S", "Connection"]

TIMEOUT_S: Final = 5.0
"""How long a connection, a stranger's first line, or a line sent may take."""
_CHUNK: Final = 4096


class Connection:
    """A socket that carries lines."""

    def __init__(self, connected: socket.socket, stranger_s: float = TIMEOUT_S) -> None:
        connected.settimeout(min(TIMEOUT_S, stranger_s))
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = connected
        self._read = bytearray()
        self._deadline: float | None = time.monotonic() + stranger_s
        self._lock = threading.Lock()
        self.seal: Seal | None = None
        self.is_closed = False

    @property
    def is_stranger(self) -> bool:
        """Whether it has yet to say something that is sealed with our token."""
        return self._deadline is not None

    def know(self) -> None:
        """Let a peer that is known be silent for as long as it likes."""
        self._deadline = None
        self._socket.settimeout(TIMEOUT_S)

    def read(self) -> bytes:
        """Return the next line; empty where the peer is gone, or strange for too long."""
        while (end := self._read.find(b"\n")) < 0:
            if len(self._read) > LONGEST_LINE:
                raise WrongSealError("", "the line is too long")
            if self._deadline is not None and time.monotonic() >= self._deadline:
                return b""
            try:
                chunk = self._socket.recv(_CHUNK)
            except TimeoutError:
                continue
            if not chunk:
                return b""
            self._read += chunk
        line = bytes(self._read[: end + 1])
        del self._read[: end + 1]
        return line

    def write(self, line: bytes) -> None:
        """Send a line that is not sealed, if the peer takes it."""
        with contextlib.suppress(OSError):
            self._socket.sendall(line)

    def send(self, message: Message) -> None:
        """Seal the message and send it; a broken connection closes."""
        with self._lock:
            if self.seal is None or self.is_closed:
                return
            self.seal, line = self.seal.line(message)
            try:
                self._socket.sendall(line)
            except OSError:
                self.close()

    def close(self) -> None:
        """End it."""
        self.is_closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()
