from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from http.client import HTTPException

import pytest

from elastream.control.connection import BoundedReader, BoundedWriter, Deadline


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


Pair = tuple[socket.socket, socket.socket]


def test_bytes_that_keep_coming_do_not_move_the_deadline(pair: Pair) -> None:
    ours, theirs = pair
    clock = Clock()
    reader = BoundedReader(ours, Deadline(10, clock), most_bytes=100)
    for _ in range(2):
        theirs.sendall(b"a")
        assert reader.read(1) == b"a"
        clock.now_s += 5
    theirs.sendall(b"a")
    with pytest.raises(TimeoutError):
        reader.read(1)


def test_a_deadline_that_is_renewed_begins_again() -> None:
    clock = Clock()
    deadline = Deadline(10, clock)
    clock.now_s += 9
    deadline.renew()
    clock.now_s += 9
    assert deadline.left_s() == 1


def test_nothing_is_written_after_the_deadline(pair: Pair) -> None:
    ours, theirs = pair
    clock = Clock()
    writer = BoundedWriter(ours, Deadline(10, clock))
    assert writer.write(b"in time") == 7
    assert theirs.recv(100) == b"in time"
    clock.now_s += 10
    with pytest.raises(TimeoutError):
        writer.write(b"too late")


def test_a_client_that_does_not_read_is_waited_for_until_the_deadline_only(pair: Pair) -> None:
    ours, _ = pair
    with pytest.raises(TimeoutError):
        BoundedWriter(ours, Deadline(0.05)).write(bytes(64 << 20))


def test_a_bounded_number_of_bytes_is_read(pair: Pair) -> None:
    ours, theirs = pair
    reader = io.BufferedReader(BoundedReader(ours, Deadline(60), most_bytes=10))
    theirs.sendall(b"12345\n" * 3)
    assert reader.readline() == b"12345\n"
    with pytest.raises(HTTPException, match="too large"):
        reader.readline()


def test_the_end_of_a_connection_is_the_end_of_what_is_read(pair: Pair) -> None:
    ours, theirs = pair
    theirs.close()
    assert BoundedReader(ours, Deadline(60), most_bytes=10).read() == b""
