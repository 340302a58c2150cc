"""Limits of one connection: the bytes that it sends, and the time for each request.

The timeout of a socket bounds only the wait for the next byte, so a client that sends a byte now
and then could hold its connection. Here the whole request shares one deadline.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class Deadline:
    """The time by which something must be done, until it is renewed."""

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._at_s = clock() + limit_s

    def renew(self) -> None:
        """Start the whole time again."""
        self._at_s = self._clock() + self._limit_s

    def left_s(self) -> float:
        """Return the time left, always more than zero; raises ``TimeoutError`` where none is."""
        left_s = self._at_s - self._clock()
        if left_s <= 0:
            raise TimeoutError("the time for this request is over")
        return left_s


class BoundedReader(io.RawIOBase):
    """Reads from a socket until the deadline, at most ``most_bytes`` in total."""

    def __init__(self, connection: socket.socket, deadline: Deadline, most_bytes: int) -> None:
        self._connection = connection
        self._deadline = deadline
        self._bytes_left = most_bytes

    def readable(self) -> bool:
        """Return that it can be read from."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Wait for bytes and read them; raises ``HTTPException`` where there were too many."""
        if self._bytes_left == 0:
            raise HTTPException("the request is too large")
        self._connection.settimeout(self._deadline.left_s())
        with memoryview(buffer) as view:
            size = self._connection.recv_into(view[: self._bytes_left])
        self._bytes_left -= size
        return size


class BoundedWriter(io.BufferedIOBase):
    """Writes to a socket until the deadline."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def write(self, data: ReadableBuffer) -> int:
        """Write all of ``data``; raises ``TimeoutError`` where the client does not take it."""
        self._connection.settimeout(self._deadline.left_s())  # for all of sendall
        self._connection.sendall(data)
        with memoryview(data) as view:
            return view.nbytes
