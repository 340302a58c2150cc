"""The page's server: static files, a stream of records, and metrics.

It changes nothing, unless it was made with a token: then ``POST /control`` takes commands to the
loop (:mod:`elastream.control`) from whoever sends that token. It is a header, which no other web
site can make a browser send, and a request whose ``Origin`` is another site is refused in any case.
A token is taken on the loopback address or over TLS alone.

It may run in the driver of an application, so everything that a client can take is bounded
(:class:`Limits`). Writers of records never wait for a reader (:mod:`elastream.page.history`).

It listens on the loopback address unless another one is given. It answers only requests whose
``Host`` is an address, a name of this machine or a name it was given, so that no web site can read
it through a visitor's browser by a name of its own (DNS rebinding).
"""

from __future__ import annotations

import errno
import hmac
import io
import json
import logging
import re
import socket
import ssl
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from elastream.control.commands import LONGEST, Door
from elastream.control.connection import BoundedReader, BoundedWriter, Deadline
from elastream.model.checks import abbreviate
from elastream.model.errors import ElastreamError, ProblemError
from elastream.page.run import Run

_log = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
_HEARTBEAT_S: Final = 10.0
_JOIN_S: Final = 30.0
_MOST_PORT: Final = 65535
_NAME: Final = re.compile(r"[\w.-]{1,253}")
_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What ``accept`` fails with while the process or the machine can hold no more connections."""
_MOST_DIGITS: Final = 18
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

_WRONG_HOST: Final = (
    b"the page does not answer to this host name: call it by the machine's address, "
    b"or let the name be given to it (--page-name, page_names)\n"
)
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 21\r\n"
    b"Connection: close\r\n\r\ntoo many connections\n"
)

_WRONG_ORIGIN: Final = b"a command must come from this page itself\n"
_WRONG_TOKEN: Final = b"the token is missing or wrong\n"
_WRONG_KIND: Final = b"a command is JSON, with a Content-Type of application/json\n"
_WRONG_SIZE: Final = b"a command needs a Content-Length, and may have some kilobytes\n"

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may use of the process that serves the page."""

    connections: int = 64
    """Open at a time, each with a thread; further ones are closed with a status of 503."""
    readers: int = 32
    """Of the connections, those that follow the records."""
    head_bytes: int = 16 << 10
    """Size of a request: its first line and its headers."""
    request_s: float = 20.0
    """From the beginning of a connection until its answer is written; also for each event."""
    pause_s: float = 0.5
    """Before it accepts again, where the process has no descriptor left."""


_DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class PageDoor:
    """Takes commands from whoever has the token."""

    door: Door
    token: str


def checked_certificate(certificate: Path) -> ssl.SSLContext:
    """Return what encrypts connections with a certificate and its key, both in one PEM file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate)
    except (OSError, ssl.SSLError) as error:
        why = f"{certificate} is not a PEM file with a certificate and its key: {error}"
        raise ProblemError("page_certificate", why) from None
    return context


def expect_private(address: Address, certificate: Path | None) -> None:
    """Refuse a token that others could read on its way."""
    if certificate is None and not _is_loopback(address[0]):
        raise ProblemError(
            "page_token",
            "could be read on its way: give `page_certificate`, or keep the page on this machine",
        )


def page_address(page: int | str, *, field: str = "page") -> Address:
    """Return host and port of a page: a port of this machine, or ``HOST:PORT``."""
    host, _, port = str(page).rpartition(":")
    number = int(port) if port.isdecimal() and len(port) < _MOST_DIGITS else -1
    if isinstance(page, bool) or not 0 <= number <= _MOST_PORT:
        wrong = f"{abbreviate(page)} is not a port; give one from 0 to {_MOST_PORT}, or HOST:PORT"
        raise ProblemError(field, wrong)
    return host.strip("[]") or LOOPBACK, number


def checked_names(names: Collection[str]) -> frozenset[str]:
    """Return the names that clients may call the page by, in small letters."""
    for name in names:
        if not _NAME.fullmatch(name):
            wrong = f"{abbreviate(name)} is not a host name; give it without a port"
            raise ProblemError("page_names", wrong)
    return frozenset(name.lower() for name in names)


def checked_address(page: int | str) -> Address:
    """Return host and port of a page after a look that they are free; for before a long run."""
    address = page_address(page)
    _Server(Run("none"), *address, frozenset(), _DEFAULT_LIMITS).server_close()
    return address


class PageServer:
    """Serves one run until it is closed. Port 0 takes one that is free.

    ``names`` are further host names that clients may call it by. With a ``door`` it takes commands,
    with a ``certificate`` it speaks HTTPS.
    """

    def __init__(
        self,
        run: Run,
        address: Address,
        *,
        names: Collection[str] = (),
        limits: Limits = _DEFAULT_LIMITS,
        door: PageDoor | None = None,
        certificate: Path | None = None,
    ) -> None:
        host, port = address
        self._run = run
        if door is not None:
            expect_private(address, certificate)
        context = None if certificate is None else checked_certificate(certificate)
        self._server = _Server(run, host, port, checked_names(names), limits, door, context)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="elastream page", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        host, port = self._server.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"{self._server.scheme}://{name}:{port}/"

    def close(self) -> None:
        """End it; harmless if repeated."""
        self._run.end("the page was closed")
        self._server.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_JOIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        run: Run,
        host: str,
        port: int,
        names: frozenset[str],
        limits: Limits,
        door: PageDoor | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.run = run
        self.limits = limits
        self.door = door
        self._context = context
        self.readers = threading.BoundedSemaphore(limits.readers)
        self.closing = threading.Event()
        self._connections = threading.BoundedSemaphore(limits.connections)
        self._out_of_descriptors = False
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            why = error.strerror or str(error)
            raise ElastreamError(
                f"the page cannot listen on {host}, port {port}: {why}; "
                "give another port, or 0 for one that is free"
            ) from None
        self._names = names | {"localhost", host.lower()}
        self._is_private = _is_loopback(host)
        if not self._is_private:
            self._names |= {socket.gethostname().lower()}

    def is_called_by(self, host: str) -> bool:
        """Return whether ``host``, a request's header, is an address or a name of this page.

        A browser sends what is in its address bar: a site's own name, or an address.
        """
        try:
            name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
        except ValueError:
            return False
        return name in self._names or (
            _is_loopback(name) if self._is_private else _is_address(name)
        )

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; pause where the process has no descriptor for it.

        The socket stays readable, so that without a pause this would spin.
        """
        try:
            accepted = super().get_request()
        except OSError as error:
            if error.errno in _NO_DESCRIPTORS:
                if not self._out_of_descriptors:
                    _log.warning("the page cannot accept connections for now: %s", error.strerror)
                self._out_of_descriptors = True
                self.closing.wait(self.limits.pause_s)
            raise
        self._out_of_descriptors = False
        if self._context is None:
            return accepted
        connection, client = accepted  # it shakes hands in its own thread: that may take a while
        return self._context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        ), client

    @property
    def scheme(self) -> str:
        """Of its address."""
        return "http" if self._context is None else "https"

    def is_own_origin(self, origin: str, host: str) -> bool:
        """Return whether a request's ``Origin`` is this page as the request calls it."""
        return origin.lower() == f"{self.scheme}://{host}".lower()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, unless there are too many."""
        if not self._connections.acquire(blocking=False):
            self._turn_away(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._connections.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Log that the reader has gone."""
        _log.debug("a reader of the page is gone", exc_info=True)

    def _turn_away(self, request: socket.socket) -> None:
        """Answer without waiting: this is the thread that accepts."""
        with suppress(OSError):
            request.setblocking(False)
            request.send(_FULL)
            request.recv(self.limits.head_bytes)  # else closing resets it, and the answer is lost
        self.shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "elastream"
    sys_version = ""

    def setup(self) -> None:
        """Bound the bytes and the time of the request."""
        limits = self.server.limits
        self.connection = self.request
        self._deadline = Deadline(limits.request_s)
        if isinstance(self.connection, ssl.SSLSocket):
            self.connection.settimeout(self._deadline.left_s())
            self.connection.do_handshake()
        reader = BoundedReader(self.connection, self._deadline, limits.head_bytes)
        self.rfile = io.BufferedReader(reader)
        self.wfile = BoundedWriter(self.connection, self._deadline)

    def handle(self) -> None:
        """Answer one request and close the connection."""
        self.close_connection = True
        try:
            self.handle_one_request()
        except HTTPException:  # too large in its first line; in the headers it is answered already
            self.requestline, self.request_version, self.command = "", self.protocol_version, ""
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def do_GET(self) -> None:
        """Answer with the page, its parts, the records or the metrics."""
        if not self.server.is_called_by(self.headers.get("Host", "")):
            self._send(HTTPStatus.FORBIDDEN, _WRONG_HOST)
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

    def do_POST(self) -> None:
        """Carry out a command, where the page takes any."""
        door = self.server.door
        if door is None or urlsplit(self.path).path != "/control":
            self.send_error(HTTPStatus.NOT_IMPLEMENTED)
            return
        host = self.headers.get("Host", "")
        origin, site = self.headers.get("Origin"), self.headers.get("Sec-Fetch-Site", "none")
        if not self.server.is_called_by(host):
            self._send(HTTPStatus.FORBIDDEN, _WRONG_HOST)
        elif (origin is not None and not self.server.is_own_origin(origin, host)) or (
            site not in ("same-origin", "none")
        ):
            self._send(HTTPStatus.FORBIDDEN, _WRONG_ORIGIN)
        elif not _has_token(self.headers.get("Authorization", ""), door.token):
            self._send(HTTPStatus.UNAUTHORIZED, _WRONG_TOKEN)
        elif self.headers.get_content_type() != "application/json":
            self._send(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, _WRONG_KIND)
        elif not (length := _length(self.headers.get("Content-Length"))):
            self._send(HTTPStatus.LENGTH_REQUIRED, _WRONG_SIZE)
        else:
            self._obey(door, length)

    def _obey(self, door: PageDoor, length: int) -> None:
        try:
            text = self.rfile.read(length)
        except HTTPException:  # with its headers it is too large
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _WRONG_SIZE)
            return
        if len(text) < length:  # cut short: whoever gave it may not have meant this
            return
        answer = door.door(text, f"the token's holder at {self.client_address[0]}")
        status = HTTPStatus.OK if answer.taken else HTTPStatus.CONFLICT
        self._send(status, answer.line().encode() + b"\n", "application/json")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log a request for debugging only."""
        _log.debug(format, *args)

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
        for name, value in {**headers, **_HEADERS, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self) -> None:
        if not self.server.readers.acquire(blocking=False):
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, b"too many readers already\n")
            return
        try:
            self.send_response(HTTPStatus.OK)
            self._send_headers({"Content-Type": "text/event-stream"})
            if self.command != "HEAD":
                self._send_records(_position(self.headers.get("Last-Event-ID")))
        except OSError:
            _log.debug("a reader of the page is gone", exc_info=True)
        finally:
            self.server.readers.release()

    def _send_records(self, position: int | None) -> None:
        """Send the records there are and those that come, until the run or the reader is gone."""
        run, history = self.server.run, self.server.run.history
        self._event("about", json.dumps(_about(run, takes_commands=self.server.door is not None)))
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
                self._write(b": still here\n\n")

    def _event(self, name: str, data: str, *, number: int | None = None) -> None:
        lines = [f"event: {name}"]
        if number is not None:
            lines.append(f"id: {number}")
        lines += [f"data: {line}" for line in data.split("\n")]
        self._write(("\n".join(lines) + "\n\n").encode())

    def _write(self, event: bytes) -> None:
        """Write an event; each has the time of a request."""
        self._deadline.renew()
        self.wfile.write(event)


def _about(run: Run, *, takes_commands: bool) -> dict[str, Any]:
    return {
        "title": run.title,
        "live": run.file is None,
        "file": run.file,
        "begins_later": run.history.begins_later,
        "version": version("elastream"),
        "takes_commands": takes_commands,
    }


def _has_token(header: str, token: str) -> bool:
    scheme, _, given = header.partition(" ")
    same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return scheme.lower() == "bearer" and same


def _length(text: str | None) -> int | None:
    """Return the length of a command; ``None`` where it has none, or is too long."""
    if text is None or not text.isdecimal() or len(text) > _MOST_DIGITS:
        return None
    return int(text) if int(text) <= LONGEST else None


def _position(text: str | None) -> int | None:
    if text is None or not text.isdecimal() or len(text) > _MOST_DIGITS:
        return None
    return int(text)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


_STATIC: Final = {
    part.name: part
    for part in files("elastream.page").joinpath("static").iterdir()
    if f".{part.name.rpartition('.')[2]}" in _TYPES
}
"""The files of the page by name; nothing else of this machine is served."""
