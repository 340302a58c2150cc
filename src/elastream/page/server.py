"""The page's server: a file or two, a stream of records, and metrics. It changes nothing.

One thread for each who looks, a few dozen at most. Whoever writes records waits for none of them
(:mod:`elastream.page.history`); a reader that does not read is let go after a while. The standard
library's server does: there is one page, no form, and nothing to configure; a framework would be
the larger part of it.

It listens on this machine alone unless told otherwise, and then answers only who calls it by a name
of this machine, so that no site elsewhere can read it through somebody's browser.
"""

from __future__ import annotations

import json
import logging
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from importlib.resources import files
from ipaddress import ip_address
from socket import AF_INET6
from typing import Any, Final, Self
from urllib.parse import urlsplit

from elastream.model.checks import shown
from elastream.model.errors import ElastreamError, ProblemError
from elastream.page.run import Run

__all__ = ["LOOPBACK", "Address", "PageServer", "checked_address", "page_address"]

_log = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
_MOST_READERS: Final = 32
_HEARTBEAT_S: Final = 10.0
_PATIENCE_S: Final = 30.0
"""How long a reader may not read, or not say what it wants."""
_MOST_PORT: Final = 65535
_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain",
}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Address = tuple[str, int]


def page_address(page: int | str, *, field: str = "page") -> Address:
    """Return host and port of a page: a port of this machine, or ``HOST:PORT``."""
    host, _, port = str(page).rpartition(":")
    if isinstance(page, bool) or not port.isdecimal() or int(port) > _MOST_PORT:
        wrong = f"{shown(page)} is no port; give one from 0 to {_MOST_PORT}, or HOST:PORT"
        raise ProblemError(field, wrong)
    return host.strip("[]") or LOOPBACK, int(port)


def checked_address(page: int | str) -> Address:
    """Return host and port of a page that somebody can listen on now; for before a long run."""
    address = page_address(page)
    _Server(Run("none"), *address).server_close()
    return address


class PageServer:
    """Serves one run until it is closed. Port 0 takes one that is free."""

    def __init__(self, run: Run, address: Address) -> None:
        host, port = address
        self._run = run
        self._server = _Server(run, host, port)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="elastream page", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        host, port = self._server.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}/"

    def close(self) -> None:
        """End it; harmless if repeated."""
        self._run.end("the page was closed")
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, run: Run, host: str, port: int) -> None:
        self.run = run
        self.readers = threading.BoundedSemaphore(_MOST_READERS)
        self.host = host
        if ":" in host:
            self.address_family = AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            why = error.strerror or str(error)
            raise ElastreamError(
                f"the page cannot listen on {host}, port {port}: {why}; "
                "give another port, or 0 for one that is free"
            ) from None
        self.private = _is_loopback(host)
        """Whether only this machine can reach it."""

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Take it that who looked has gone."""
        _log.debug("a reader of the page is gone", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE_S
    server_version = "elastream"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the page, its parts, the records or the metrics."""
        if not self._called_by_name():
            self._send(HTTPStatus.FORBIDDEN, b"call it by a name of its own machine\n")
            return
        path = urlsplit(self.path).path
        if path == "/events":
            self._stream()
        elif path == "/metrics":
            text, kind = self.server.run.metrics(self.headers.get("Accept", ""))
            self._send(HTTPStatus.OK, text, kind)
        else:
            self._send_static("index.html" if path == "/" else path.removeprefix("/"))

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Tell Python's logging, which keeps it to itself unless asked."""
        _log.debug(format, *args)

    def _called_by_name(self) -> bool:
        """Tell whether the caller knows the machine, and was not led here by a name elsewhere."""
        if not self.server.private:
            return True
        name = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        return name in ("localhost", self.server.host) or _is_loopback(name)

    def _send_static(self, name: str) -> None:
        part = _STATIC.get(name)
        if part is None:
            self._send(HTTPStatus.NOT_FOUND, b"there is no such page; try /\n")
            return
        kind = _TYPES[f".{name.rpartition('.')[2]}"]
        self._send(HTTPStatus.OK, part.read_bytes(), f"{kind}; charset=utf-8")

    def _send(self, status: HTTPStatus, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self._send_headers({"Content-Type": kind, "Content-Length": str(len(body))})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_headers(self, headers: dict[str, str]) -> None:
        for name, value in {**headers, **_HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self) -> None:
        if not self.server.readers.acquire(blocking=False):
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, b"too many look at this already\n")
            return
        try:
            self.close_connection = True
            self.send_response(HTTPStatus.OK)
            self._send_headers({"Content-Type": "text/event-stream", "Connection": "close"})
            if self.command != "HEAD":
                self._tell(_position(self.headers.get("Last-Event-ID")))
        except OSError:
            _log.debug("a reader of the page is gone", exc_info=True)
        finally:
            self.server.readers.release()

    def _tell(self, position: int | None) -> None:
        """Tell what there is and what comes, until the run is over or the reader is gone."""
        run, history = self.server.run, self.server.run.history
        self._event("about", json.dumps(_about(run)))
        over: str | None = None
        while True:
            portion = history.read(position)
            if portion.anew:
                self._event("reset", "{}")
            position = portion.position
            if portion.lines:
                self._event("records", "\n".join(portion.lines), number=position)
                over = None
                continue
            if run.why_over is not None and over != run.why_over:
                over = run.why_over
                self._event("end", json.dumps({"why": over}))
            if history.closed:
                return
            if not history.wait(position, _HEARTBEAT_S):
                self.wfile.write(b": still here\n\n")

    def _event(self, name: str, data: str, *, number: int | None = None) -> None:
        lines = [f"event: {name}"]
        if number is not None:
            lines.append(f"id: {number}")
        lines += [f"data: {line}" for line in data.split("\n")]
        self.wfile.write(("\n".join(lines) + "\n\n").encode())


def _about(run: Run) -> dict[str, Any]:
    return {
        "title": run.title,
        "live": run.file is None,
        "file": run.file,
        "begins_later": run.history.begins_later,
        "version": version("elastream"),
    }


def _position(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


_STATIC: Final = {
    part.name: part
    for part in files("elastream.page").joinpath("static").iterdir()
    if f".{part.name.rpartition('.')[2]}" in _TYPES
}
"""What the page is made of, by name; nothing else of this machine can be asked for."""
