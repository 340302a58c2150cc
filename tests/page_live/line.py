"""A line between a browser and its page that can be cut and mended."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

__all__ = ["Line", "line_to"]


class Line:
    """Passes on what either side says, while it is whole."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._target = (place.hostname or "", place.port or 0)
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Where the page seems to be."""
        return f"http://127.0.0.1:{self._server.getsockname()[1]}/"

    def cut(self) -> None:
        """End every connection, and take no new one."""
        self._cut = True
        with self._lock:
            ends, self._open = self._open, set()
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Take new ones again."""
        self._cut = False

    def close(self) -> None:
        """End it for good."""
        self.cut()
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            if self._cut:
                near.close()
                continue
            far = socket.create_connection(self._target)
            with self._lock:
                self._open |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while said := one.recv(65536):
                other.sendall(said)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        with self._lock:
            self._open -= {one, other}


@contextmanager
def line_to(url: str) -> Iterator[Line]:
    """Give a line to a page."""
    line = Line(url)
    try:
        yield line
    finally:
        line.close()
