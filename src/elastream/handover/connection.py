"""A socket that carries lines, with a deadline for strangers and none for known peers.

A client that sends a byte now and then must not occupy a place for ever, so a stranger's first line
has a deadline as a whole. A known peer may be silent for as long as it likes; TCP keep-alive checks
whether its machine is still there. Sending has a deadline too: a peer that reads nothing would
otherwise block the sender.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Final

from elastream.handover.messages import Message
from elastream.handover.seal import LONGEST_LINE, Seal, WrongSealError

TIMEOUT_S: Final = 5.0
"""Deadline for a connection, a stranger's first line, or a sent line."""
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
        """Whether it has not yet sent a line sealed with our token."""
        return self._deadline is not None

    def know(self) -> None:
        """Allow a known peer to be silent for as long as it likes."""
        self._deadline = None
        self._socket.settimeout(TIMEOUT_S)

    def read(self) -> bytes:
        """Return the next line; empty if the peer is gone, or a stranger exceeds its deadline."""
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
        """Send an unsealed line, if the peer accepts it."""
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
        """Close the connection."""
        self.is_closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()
