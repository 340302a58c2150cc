"""The connection between the two drivers: TCP on the loopback interface or between given addresses.

A broken connection loses messages. The machines repeat theirs, and the target's link connects again
for its next message. Strangers are told why they are rejected, and change nothing; if they occupy
all places, the oldest has to go. A listener that cannot accept (no files left, a connection that
broke at once) reports it and continues.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from elastream.handover.connection import TIMEOUT_S, Connection
from elastream.handover.messages import Message, Refuse
from elastream.handover.seal import (
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

_MOST_CONNECTIONS: Final = 16
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


class _Inbox:
    """Queue of received messages."""

    def __init__(self) -> None:
        self._heard: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def receive(self, timeout_s: float) -> Message | None:
        """Return the next message; ``None`` on timeout."""
        with contextlib.suppress(queue.Empty):
            return self._heard.get(timeout=timeout_s)
        return None


class OriginServer(_Inbox):
    """Listens for targets; an answer goes to the connection that last spoke for its handover."""

    def __init__(
        self,
        address: Address,
        token: str,
        *,
        turned_away: Callable[[str], None] | None = None,
        stranger_s: float = TIMEOUT_S,
    ) -> None:
        super().__init__()
        self._token, self._turned_away = token, turned_away
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
        is_told = False
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
                if not is_told:
                    why = getattr(error, "strerror", None) or error
                    self._tell(f"nobody can connect: {why}; goes on listening")
                is_told = True
            else:
                is_told = False

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
            nonce = new_nonce()
            connection.write(greeting(nonce))
            self._listen_to(connection, nonce)
        except ElastreamError as error:
            self._tell(str(error))
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

    def _tell(self, why: str) -> None:
        if self._turned_away is not None:
            self._turned_away(why)

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
            self._heard.put(message)
            line = connection.read()


class TargetLink(_Inbox):
    """Connects to an origin whenever there is a message to send and no connection."""

    def __init__(self, address: Address, token: str) -> None:
        super().__init__()
        self._address, self._token = address, token
        self._connection: Connection | None = None
        self._is_closed = False

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
        connection = Connection(socket.create_connection(where, timeout=TIMEOUT_S))
        try:
            nonce, ours = greeting_nonce(connection.read()), new_nonce()
        except ElastreamError:
            connection.close()
            raise ProblemError(
                "address", f"whoever listens on {self._address} does not speak this protocol"
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
