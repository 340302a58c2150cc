"""The connection between the two drivers: TCP on the loopback interface or between given addresses.

Beyond loopback it is TLS. A broken connection loses messages. The machines repeat theirs, and the
target's link connects again for its next message. Strangers learn why they are rejected, and change
nothing; if they occupy all places, the oldest has to go. A listener that cannot accept reports it
and continues.
"""

from __future__ import annotations

import contextlib
import queue
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elastream.handover.certificates import connected, fingerprint_in, is_loopback
from elastream.handover.messages import Message, Refuse
from elastream.handover.seal import (
    LONGEST_LINE,
    Seal,
    WrongSealError,
    greeting,
    greeting_nonce,
    new_nonce,
    nonce_of,
    read_token,
    refusal,
    refusal_in,
)
from elastream.model.errors import ElastreamError, ProblemError

TIMEOUT_S: Final = 5.0
"""Deadline for a connection, a stranger's first line, or a sent line."""
_CHUNK: Final = 4096
_MOST_CONNECTIONS: Final = 16
_POLL_S: Final = 0.5
_PAUSE_S: Final = 0.1
"""Pause after a connection that could not be accepted."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the origin listens."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 lets the system choose."""

    @classmethod
    def of(cls, text: str) -> Address:
        """Return the address written as ``HOST:PORT``."""
        host, _, port = text.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ProblemError("address", f"{text!r} is not HOST:PORT")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Connection:
    """A socket that carries lines, with a deadline for strangers and none for known peers.

    A stranger's first line has a deadline as a whole: a client that sends a byte now and then must
    not occupy a place for ever. TCP keep-alive checks whether a known peer's machine is still
    there. Sending has a deadline too: a peer that reads nothing would otherwise block the sender.
    """

    def __init__(self, connected: socket.socket, stranger_s: float = TIMEOUT_S) -> None:
        connected.settimeout(min(TIMEOUT_S, stranger_s))
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = connected
        self._read = bytearray()
        self._deadline: float | None = time.monotonic() + stranger_s
        self._lock = threading.Lock()
        self.seal: Seal | None = None
        self.is_closed = False

    def secure(self, context: ssl.SSLContext) -> None:
        """Shake hands as the origin, before anything else is read or written."""
        self._socket = context.wrap_socket(self._socket, server_side=True)

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
                chunk = self._received()
            except TimeoutError:
                continue
            if not chunk:
                return b""
            self._read += chunk
        line = bytes(self._read[: end + 1])
        del self._read[: end + 1]
        return line

    def _received(self) -> bytes:
        """Return what has come; raises ``TimeoutError`` if nothing has for a while.

        One thread reads while another writes. OpenSSL allows one at a time, so none reads before
        there is something to read.
        """
        secured = self._socket
        if not isinstance(secured, ssl.SSLSocket):
            return secured.recv(_CHUNK)
        if not secured.pending():
            if secured.fileno() < 0:
                return b""
            poll = select.poll()
            poll.register(secured, select.POLLIN)
            if not poll.poll(_POLL_S * 1000):
                raise TimeoutError
        with self._lock:
            before = secured.gettimeout()
            secured.settimeout(_POLL_S)  # of a record that has come in part
            try:
                return secured.recv(_CHUNK)
            finally:
                secured.settimeout(before)

    def write(self, line: bytes) -> None:
        """Send an unsealed line, if the peer accepts it."""
        with contextlib.suppress(OSError), self._lock:
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


class _Inbox:
    """Queue of received messages."""

    def __init__(self) -> None:
        self._received: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def receive(self, timeout_s: float) -> Message | None:
        """Return the next message; ``None`` on timeout."""
        with contextlib.suppress(queue.Empty):
            return self._received.get(timeout=timeout_s)
        return None


class OriginServer(_Inbox):
    """Listens for targets; an answer goes to the connection that last spoke for its handover."""

    def __init__(
        self,
        address: Address,
        token: str,
        *,
        on_rejected: Callable[[str], None] | None = None,
        stranger_s: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__()
        self._token, self._on_rejected, self._tls = token, on_rejected, tls
        self._stranger_s = stranger_s
        self._speakers: dict[str, Connection] = {}
        self._connections: dict[Connection, None] = {}  # the oldest first
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        try:
            self._listener = socket.create_server((address.host, address.port))
        except OSError as error:
            why = f"cannot listen on {address}: {error.strerror or error}"
            raise ProblemError("address", why) from None
        self.address = Address(address.host, self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="handover-accept", daemon=True).start()

    def send(self, message: Message) -> None:
        """Answer the last sender of the message's handover; lost if it is not connected."""
        with self._lock:
            speaker = self._speakers.get(message.handover)
        if speaker is not None:
            speaker.send(message)

    def close(self) -> None:
        """Stop listening and close every connection."""
        self._is_closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close()

    def _accept(self) -> None:
        is_reported = False
        while not self._is_closed.is_set():
            try:
                accepted, _ = self._listener.accept()
                connection = self._admitted(accepted)
                if connection is not None:
                    threading.Thread(
                        target=self._serve, args=(connection,), name="handover-peer", daemon=True
                    ).start()
            except (OSError, RuntimeError) as error:  # RuntimeError: no thread can be started
                if self._is_closed.wait(_PAUSE_S):
                    return
                if not is_reported:
                    why = getattr(error, "strerror", None) or error
                    self._report(f"no client can connect: {why}; still listening")
                is_reported = True
            else:
                is_reported = False

    def _admitted(self, accepted: socket.socket) -> Connection | None:
        """Return the connection if there is room for it, or for a stranger that is evicted."""
        try:
            connection = Connection(accepted, self._stranger_s)
        except OSError:  # broken already
            accepted.close()
            return None
        with self._lock:
            left = None
            if len(self._connections) >= _MOST_CONNECTIONS:
                left = next((one for one in self._connections if one.is_stranger), None)
                if left is None:
                    connection.close()
                    return None
                del self._connections[left]
            self._connections[connection] = None
        if left is not None:
            left.close()
        return connection

    def _serve(self, connection: Connection) -> None:
        try:
            if self._tls is not None:
                connection.secure(self._tls)
            nonce = new_nonce()
            connection.write(greeting(nonce))
            self._listen_to(connection, nonce)
        except ElastreamError as error:
            self._report(str(error))
            connection.write(refusal(str(error)))
        except OSError:
            pass
        finally:
            with self._lock:
                self._connections.pop(connection, None)
                gone = [name for name, other in self._speakers.items() if other is connection]
                for name in gone:
                    del self._speakers[name]
            connection.close()

    def _report(self, why: str) -> None:
        if self._on_rejected is not None:
            self._on_rejected(why)

    def _listen_to(self, connection: Connection, nonce: str) -> None:
        line = connection.read()
        if not line:
            return
        peer = nonce_of(line)
        theirs = Seal(self._token, "target", nonce, peer)
        connection.seal = Seal(self._token, "origin", nonce, peer)
        while line:
            theirs, message = theirs.message(line)
            connection.know()
            with self._lock:
                before = self._speakers.get(message.handover)
                self._speakers[message.handover] = connection
            if before is not None and before is not connection:
                before.close()  # the same target has connected again
            self._received.put(message)
            line = connection.read()


class TargetLink(_Inbox):
    """Connects to an origin whenever there is a message to send and no connection."""

    def __init__(self, address: Address, token: str, fingerprint: str | None = None) -> None:
        """Speak TLS with the origin whose certificate has the fingerprint; plainly without."""
        super().__init__()
        self._address, self._token, self._fingerprint = address, token, fingerprint
        self._connection: Connection | None = None
        self._is_closed = False

    @classmethod
    def of(cls, address: Address, token_file: Path) -> TargetLink:
        """Return the link with what the origin's token file says."""
        token, fingerprint = read_token(token_file), fingerprint_in(token_file)
        if fingerprint is None and not is_loopback(address.host):
            why = f"names no certificate, and {address} is beyond loopback: copy the origin's again"
            raise ProblemError(str(token_file), why)
        return cls(address, token, fingerprint)

    def send(self, message: Message) -> None:
        """Send the message if the origin can be reached."""
        if self._is_closed:
            return
        try:
            if self._connection is None or self._connection.is_closed:
                self._connection = self._connect(message.handover)
            self._connection.send(message)
        except ProblemError:
            if self._connection is None:  # otherwise the origin has been replaced by another
                raise
        except OSError:  # the machine repeats it
            return

    def close(self) -> None:
        """Close the connection."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()

    def _connect(self, handover: str) -> Connection:
        where = (self._address.host, self._address.port)
        plain = socket.create_connection(where, timeout=TIMEOUT_S)
        if self._fingerprint is None:
            connection = Connection(plain)
        else:
            connection = Connection(connected(plain, self._fingerprint))
        try:
            nonce, ours = greeting_nonce(connection.read()), new_nonce()
        except ElastreamError:
            connection.close()
            raise ProblemError(
                "address",
                f"the program that listens on {self._address} does not speak this protocol",
            ) from None
        connection.seal = Seal(self._token, "target", nonce, ours)
        theirs = Seal(self._token, "origin", nonce, ours)
        connection.know()
        threading.Thread(
            target=self._listen, args=(connection, theirs, handover), daemon=True
        ).start()
        return connection

    def _listen(self, connection: Connection, theirs: Seal, handover: str) -> None:
        try:
            while line := connection.read():
                why = refusal_in(line)
                if why is not None:
                    self._received.put(Refuse(handover, why))
                    return
                theirs, message = theirs.message(line)
                self._received.put(message)
        except WrongSealError:
            self._received.put(Refuse(handover, "the origin has another token"))
        except (OSError, ElastreamError):
            pass
        finally:
            connection.close()
