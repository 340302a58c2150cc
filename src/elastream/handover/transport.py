"""The two drivers' connection: TCP on the loopback interface, or between addresses given.

What a broken connection swallows is a message lost; the machines repeat theirs, and the target's
link connects again when it next has something to say. Strangers are told why they are turned away,
and change nothing.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from elastream.handover.messages import Message, Refuse
from elastream.handover.seal import (
    LONGEST_LINE,
    Seal,
    WrongSealError,
    greeting,
    greeting_nonce,
    new_nonce,
    nonce_of,
    refusal,
    refusal_in,
)
from elastream.model.errors import ElastreamError, ProblemError

__all__ = ["Address", "OriginServer", "TargetLink"]

_TIMEOUT_S: Final = 5.0
"""How long a connection, or a stranger's first line, may take."""
_MOST_CONNECTIONS: Final = 16


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


class OriginServer:
    """Listens for targets; an answer goes to the connection that last spoke for its handover."""

    def __init__(
        self,
        address: Address,
        token: str,
        *,
        turned_away: Callable[[str], None] | None = None,
    ) -> None:
        self._token, self._turned_away = token, turned_away
        self._heard: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._speakers: dict[str, _Connection] = {}
        self._connections: set[_Connection] = set()
        self._lock = threading.Lock()
        try:
            self._listener = socket.create_server((address.host, address.port))
        except OSError as error:
            why = f"cannot listen on {address}: {error.strerror or error}"
            raise ProblemError("address", why) from None
        self.address = Address(address.host, self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="handover-accept", daemon=True).start()

    def receive(self, timeout_s: float) -> Message | None:
        """Return the next message; ``None`` where none comes in time."""
        with contextlib.suppress(queue.Empty):
            return self._heard.get(timeout=timeout_s)
        return None

    def send(self, message: Message) -> None:
        """Answer whoever spoke last for the message's handover; lost where nobody is there."""
        with self._lock:
            speaker = self._speakers.get(message.handover)
        if speaker is not None:
            speaker.send(message)

    def close(self) -> None:
        """Listen no more, and end every connection."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                is_room = len(self._connections) < _MOST_CONNECTIONS
            if is_room:
                threading.Thread(
                    target=self._serve, args=(accepted,), name="handover-peer", daemon=True
                ).start()
            else:
                accepted.close()

    def _serve(self, accepted: socket.socket) -> None:
        connection = _Connection(accepted)
        with self._lock:
            self._connections.add(connection)
        try:
            nonce = new_nonce()
            connection.write(greeting(nonce))
            self._listen_to(connection, nonce)
        except ElastreamError as error:
            if self._turned_away is not None:
                self._turned_away(str(error))
            connection.write(refusal(str(error)))
        except OSError:
            pass
        finally:
            with self._lock:
                self._connections.discard(connection)
                gone = [name for name, other in self._speakers.items() if other is connection]
                for name in gone:
                    del self._speakers[name]
            connection.close()

    def _listen_to(self, connection: _Connection, nonce: str) -> None:
        line = connection.read()
        if not line:
            return
        peer = nonce_of(line)
        theirs = Seal(self._token, "target", nonce, peer)
        connection.seal = Seal(self._token, "origin", nonce, peer)
        while line:
            theirs, message = theirs.message(line)
            connection.wait_long()
            with self._lock:
                self._speakers[message.handover] = connection
            self._heard.put(message)
            line = connection.read()


class TargetLink:
    """Speaks to an origin, connecting whenever there is something to say and no connection."""

    def __init__(self, address: Address, token: str) -> None:
        self._address, self._token = address, token
        self._heard: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._connection: _Connection | None = None
        self._is_closed = False

    def receive(self, timeout_s: float) -> Message | None:
        """Return the next message; ``None`` where none comes in time."""
        with contextlib.suppress(queue.Empty):
            return self._heard.get(timeout=timeout_s)
        return None

    def send(self, message: Message) -> None:
        """Say it, if the origin can be reached."""
        if self._is_closed:
            return
        try:
            if self._connection is None or self._connection.is_closed:
                self._connection = self._connect(message.handover)
            self._connection.send(message)
        except ProblemError:
            if self._connection is None:  # else the origin has gone, and another is in its place
                raise
        except OSError:  # the machine says it again
            return

    def close(self) -> None:
        """End the connection."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()

    def _connect(self, handover: str) -> _Connection:
        where = (self._address.host, self._address.port)
        connection = _Connection(socket.create_connection(where, timeout=_TIMEOUT_S))
        try:
            nonce, ours = greeting_nonce(connection.read()), new_nonce()
        except ElastreamError:
            connection.close()
            raise ProblemError(
                "address", f"whoever listens on {self._address} does not speak this protocol"
            ) from None
        connection.seal = Seal(self._token, "target", nonce, ours)
        theirs = Seal(self._token, "origin", nonce, ours)
        connection.wait_long()
        threading.Thread(
            target=self._listen, args=(connection, theirs, handover), daemon=True
        ).start()
        return connection

    def _listen(self, connection: _Connection, theirs: Seal, handover: str) -> None:
        try:
            while line := connection.read():
                why = refusal_in(line)
                if why is not None:
                    self._heard.put(Refuse(handover, why))
                    return
                theirs, message = theirs.message(line)
                self._heard.put(message)
        except WrongSealError:
            self._heard.put(Refuse(handover, "the origin has another token"))
        except (OSError, ElastreamError):
            pass
        finally:
            connection.close()


class _Connection:
    """A socket that carries lines."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(_TIMEOUT_S)
        self._socket = connected
        self._lines = connected.makefile("rb")
        self._lock = threading.Lock()
        self.seal: Seal | None = None
        self.is_closed = False

    def wait_long(self) -> None:
        """Let a peer that is known be silent for as long as it likes."""
        self._socket.settimeout(None)

    def read(self) -> bytes:
        """Return the next line; empty where the peer is gone."""
        line = self._lines.readline(LONGEST_LINE + 1)
        if len(line) > LONGEST_LINE:
            raise WrongSealError("", "the line is too long")
        return line if line.endswith(b"\n") else b""

    def write(self, line: bytes) -> None:
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
        self.is_closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()
