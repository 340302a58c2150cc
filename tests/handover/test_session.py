"""Handovers over real sockets on the loopback interface, between two threads."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest
from tests.handover.sides import (
    QUICK,
    SHAPE,
    TOKEN,
    Feed,
    Notes,
    joining,
    serving,
    uninterrupted,
)

from elastream.handover.ledger import Record, RecordFile
from elastream.handover.messages import Join
from elastream.handover.model import Boundary, QueryShape
from elastream.handover.origin import Committed
from elastream.handover.target import Left, Owning, Prepared
from elastream.handover.transport import Address, OriginServer, TargetLink
from elastream.model.errors import ProblemError


def test_a_handover_over_a_socket_puts_out_what_one_run_does(tmp_path: Path) -> None:
    feed, report, result = Feed(), Notes(), Notes()
    with serving(feed, tmp_path, report) as (server, origin):
        target = joining(feed, server.address, tmp_path, result)
        result.await_kind("own")
        report.await_kind("confirm")
        assert feed.finish() == uninterrupted()
        assert isinstance(origin.ended(stop=False).phase, Committed)
        assert isinstance(target.ended().phase, Owning)


@pytest.mark.parametrize(
    ("token", "shape", "line"),
    [
        ("not the token of the origin", SHAPE, "wrong token"),
        (TOKEN, QueryShape("p", SHAPE.window, 1), "the query is 'q' here and 'p' there"),
    ],
)
def test_a_target_with_a_wrong_token_or_query_is_turned_away_with_the_reason(
    tmp_path: Path, token: str, shape: QueryShape, line: str
) -> None:
    feed, report, result = Feed(), Notes(), Notes()
    with serving(feed, tmp_path, report) as (server, _):
        target = joining(feed, server.address, tmp_path, result, token=token, shape=shape)
        assert target.ended(stop=False).phase == Left(line)
    assert feed.finish() == uninterrupted()
    assert feed.target.put_out == []


def test_strangers_are_turned_away_and_the_handover_goes_on(tmp_path: Path) -> None:
    feed, report, result = Feed(), Notes(), Notes()
    with serving(feed, tmp_path, report) as (server, origin):
        where = (server.address.host, server.address.port)
        for line in (b"GET / HTTP/1.1\r\n\r\n", b"{}\n", b"[" * 70_000 + b"\n", b"\xff\n"):
            with (
                socket.create_connection(where, timeout=600) as stranger,
                suppress(ConnectionError),  # it may be reset before all of it is read
            ):
                stranger.sendall(line)
                while stranger.recv(4096):
                    pass
        target = joining(feed, server.address, tmp_path, result)
        report.await_kind("confirm")
        assert feed.finish() == uninterrupted()
        origin.ended(stop=False)
        target.ended()


def test_an_origin_that_is_not_there_leaves_the_target_without_windows(tmp_path: Path) -> None:
    feed, report = Feed(), Notes()
    server = OriginServer(Address(), TOKEN)
    server.close()
    target = joining(feed, server.address, tmp_path, report, timing=QUICK)
    assert target.ended(stop=False).phase == Left("the origin did not answer within 1.5 s")


def test_a_target_that_dies_leaves_all_to_the_origin(tmp_path: Path) -> None:
    feed, report = Feed(), Notes()
    with serving(feed, tmp_path, report, QUICK) as (server, _):
        link = TargetLink(server.address, TOKEN)
        link.send(Join("h", SHAPE))
        report.await_kind("accept")
        link.close()
        report.await_kind("abort")
        feed.finish()
    assert feed.origin.put_out == uninterrupted()


def test_a_target_in_doubt_reads_the_record_of_a_dead_origin(tmp_path: Path) -> None:
    boundary = Boundary(20, 22, (22,), (0,))
    origin_record = RecordFile(tmp_path / "origin.json")
    origin_record.write(Record("h", "q", "committed", boundary, "t"))
    RecordFile(tmp_path / "target.json").write(Record("h", "q", "prepared", boundary, "t"))
    feed, report = Feed(), Notes()
    server = OriginServer(Address(), TOKEN)
    server.close()
    target = joining(
        feed, server.address, tmp_path, report, timing=QUICK, origin_record=origin_record
    )
    report.await_kind("own")
    assert isinstance(target.ended().phase, Owning)
    assert [note.kind for note in report.notes] == ["restart", "doubt", "own"]


def test_a_target_in_doubt_without_a_record_to_read_stays_silent(tmp_path: Path) -> None:
    boundary = Boundary(20, 22, (22,), (0,))
    RecordFile(tmp_path / "target.json").write(Record("h", "q", "prepared", boundary, "t"))
    feed, report = Feed(), Notes()
    server = OriginServer(Address(), TOKEN)
    server.close()
    target = joining(feed, server.address, tmp_path, report, timing=QUICK)
    assert "its record says" in report.await_kind("doubt").reason
    assert isinstance(target.ended().phase, Prepared)
    assert feed.target.put_out == []


def test_an_address_that_is_taken_or_misspelt_is_one_line() -> None:
    server = OriginServer(Address(), TOKEN)
    with pytest.raises(ProblemError, match="cannot listen on"):
        OriginServer(server.address, TOKEN)
    server.close()
    for text in ("here", "here:", ":1", "here:x", "here:70000"):
        with pytest.raises(ProblemError, match="is not HOST:PORT"):
            Address.of(text)
    assert Address.of("::1:80") == Address("::1", 80)


@pytest.mark.parametrize("state", ["prepared", "owns"])
def test_an_origin_that_died_before_it_was_confirmed_answers_and_hears_its_target(
    tmp_path: Path, state: Literal["prepared", "owns"]
) -> None:
    boundary = Boundary(20, 22, (22,), (0,))
    RecordFile(tmp_path / "origin.json").write(Record("h", "q", "committed", boundary, "t"))
    RecordFile(tmp_path / "target.json").write(Record("h", "q", state, boundary, "t"))
    feed, report, result = Feed(), Notes(), Notes()
    with serving(feed, tmp_path, report) as (server, origin):
        feed.target.connect()
        target = joining(feed, server.address, tmp_path, result)
        report.await_kind("confirm")
        assert feed.finish() == uninterrupted()
        origin.ended(stop=False)
        target.ended()
    kept = RecordFile(tmp_path / "origin.json").read()
    assert kept is not None
    assert kept.confirmed


def test_an_origin_that_was_confirmed_ends_without_its_target(tmp_path: Path) -> None:
    boundary = Boundary(20, 22, (22,), (0,))
    record = Record("h", "q", "committed", boundary, "t", confirmed=True)
    RecordFile(tmp_path / "origin.json").write(record)
    feed, report = Feed(), Notes()
    with serving(feed, tmp_path, report) as (_, origin):
        feed.finish()
        origin.ended(stop=False)
    assert [note.kind for note in report.notes] == ["restart", "finish"]
