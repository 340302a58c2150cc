"""The local door: a socket in the file system that takes a command a connection, a line of JSON.

The socket has mode 0600 from its first moment on, and the kernel is asked who is at the other end:
the user that the program runs as, or root. A client asks the same, so that a socket of somebody
else is not taken for the program's, and the folder must be one where others cannot replace it. What
a client can take of the process is bounded: the bytes and the time of a command, and the
connections at a time.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import pwd
import secrets
import socket
import stat
import struct
import threading
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Final

from elastream.control.commands import LONGEST, Answer, Door
from elastream.control.connection import BoundedReader, BoundedWriter, Deadline
from elastream.model.errors import ElastreamError, ProblemError

_log = logging.getLogger(__name__)

_MODE: Final = 0o600
_CONNECTIONS: Final = 8
_COMMAND_S: Final = 5.0
_PAUSE_S: Final = 0.5
_CREDENTIALS: Final = "3i"
"""Process, user and group, as Linux gives them."""
_ROOT: Final = 0


def checked_path(path: Path) -> Path:
    """Return the whole path of a socket that can be made there, or raise ``ProblemError``."""
    where = path.absolute()
    if not hasattr(socket, "SO_PEERCRED"):
        raise ProblemError("control", "needs Linux, which says who is at the other end of a socket")
    if not where.parent.is_dir():
        raise ProblemError("control", f"{where.parent} is not a folder")
    if not os.access(where.parent, os.W_OK):
        raise ProblemError("control", f"{where.parent} cannot be written to")
    if (why := _not_ours(where.parent.stat())) is not None:
        raise ProblemError("control", f"{where.parent} {why}; use a folder of your own")
    if where.is_symlink() or (where.exists() and not stat.S_ISSOCK(where.lstat().st_mode)):
        raise ProblemError("control", f"{where} exists and is not a socket")
    if where.exists() and _is_answered(where):
        raise ProblemError("control", f"{where} is in use by another program; give another path")
    return where


class LocalDoor:
    """Listens at a path until it is closed; replaces a socket that a dead program has left."""

    def __init__(self, path: Path, door: Door) -> None:
        self.path = checked_path(path)
        self._door = door
        self._closing = threading.Event()
        self._places = threading.BoundedSemaphore(_CONNECTIONS)
        self._socket = _listening(self.path)
        self._identity = self.path.lstat().st_ino
        self._thread = threading.Thread(target=self._accept, name="elastream control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more commands, and remove the socket; harmless if repeated."""
        if self._closing.is_set():
            return
        self._closing.set()
        with suppress(OSError):  # wakes the thread that accepts
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with suppress(OSError):
            if self.path.lstat().st_ino == self._identity:
                self.path.unlink()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                self._closing.wait(_PAUSE_S)  # such as where no descriptor is left
                continue
            if not self._places.acquire(blocking=False):
                _send_at_once(connection, Answer(False, "too many connections; try again"))
                continue
            try:
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            except RuntimeError:  # no thread can be started
                self._places.release()
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._answer(connection)
        except (OSError, HTTPException):
            _log.debug("a client of the control socket is gone", exc_info=True)
        finally:
            self._places.release()

    def _answer(self, connection: socket.socket) -> None:
        process, user = _peer(connection)
        if user not in (os.geteuid(), _ROOT):
            _log.warning("user %s, process %s, is refused at %s", user, process, self.path)
            _send_at_once(connection, Answer(False, "this loop belongs to another user"))
            return
        deadline = Deadline(_COMMAND_S)
        reader = io.BufferedReader(BoundedReader(connection, deadline, LONGEST + 1))
        writer = BoundedWriter(connection, deadline)
        try:
            text = reader.readline()
        except HTTPException:
            text = b" " * (LONGEST + 1)
        if not text:
            return
        if not text.endswith(b"\n") and len(text) <= LONGEST:
            return  # cut short: whoever gave it may not have meant this
        answer = self._door(text, f"{_user_name(user)}, process {process}")
        writer.write(answer.line().encode() + b"\n")


def ask_locally(path: Path, record: dict[str, object], *, timeout_s: float = 30.0) -> Answer:
    """Send a command to a socket and return its answer; raises ``ElastreamError`` where none."""
    line = json.dumps(record).encode() + b"\n"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        try:
            _at(path, connection.connect)
            _, user = _peer(connection)
            if os.geteuid() not in (user, _ROOT) and user != _ROOT:
                why = f"{_user_name(user)} listens there, not your program: nothing was sent"
                raise ElastreamError(f"{path}: {why}")
            with suppress(BrokenPipeError):  # it may have been refused: read why
                connection.sendall(line)
            with connection.makefile("rb") as answers:
                return Answer.of(answers.readline())
        except OSError as error:
            raise ElastreamError(f"{path}: {_why(error)}") from None


def _why(error: OSError) -> str:
    match error.errno:
        case errno.ENOENT:
            return "there is no such socket; does the program run, and with this one?"
        case errno.ECONNREFUSED:
            return "nothing listens there any more; the program has ended"
        case errno.EACCES | errno.EPERM:
            return "belongs to another user"
        case _:
            return "did not answer in time" if isinstance(error, TimeoutError) else str(error)


def _listening(path: Path) -> socket.socket:
    """Return a socket that listens at ``path``, where it appears with its mode already."""
    folder = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise ElastreamError(f"{path}: no socket can be made: {error.strerror}") from None
    made = socket.socket(socket.AF_UNIX)
    try:
        _at(folder / "s", made.bind)
        (folder / "s").chmod(_MODE)
        made.listen(_CONNECTIONS)
        (folder / "s").rename(path)
    except OSError as error:
        made.close()
        (folder / "s").unlink(missing_ok=True)
        raise ElastreamError(f"{path}: no socket can be made: {error.strerror}") from None
    finally:
        folder.rmdir()
    return made


def _at(path: Path, call: object) -> None:
    """Call what takes the address of a socket, which may have some 100 bytes only."""
    assert callable(call)  # noqa: S101 - connect or bind
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        call(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def _not_ours(folder: os.stat_result) -> str | None:
    """Return why somebody else could put a socket of theirs in the place of ours."""
    if folder.st_uid not in (os.geteuid(), _ROOT):
        return f"belongs to {_user_name(folder.st_uid)}, who could replace the socket"
    if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        return "can be written to by all users, who could replace the socket"
    return None


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_COMMAND_S)
        try:
            _at(path, probe.connect)
        except OSError as error:
            return error.errno != errno.ECONNREFUSED
        return True


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end."""
    size = struct.calcsize(_CREDENTIALS)
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    process, user, _ = struct.unpack(_CREDENTIALS, found)
    return process, user


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _send_at_once(connection: socket.socket, answer: Answer) -> None:
    with suppress(OSError), connection:
        connection.setblocking(False)
        connection.send(answer.line().encode() + b"\n")
