"""A coordinator asks an origin for its checkpoint, over real sockets, and carries it away."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.handover.sides import CONNECTS_AT, ROWS, SHAPE, TOKEN, Feed, Notes, joining, serving

from elastream.handover.carrying import ask_for_checkpoint, carry, given_up, taken
from elastream.handover.driver import OriginDriver
from elastream.handover.events import Received
from elastream.handover.ledger import Record, RecordFile
from elastream.handover.messages import Message, Refuse, Yield
from elastream.handover.origin import Serving, Yielded, expect_unyielded
from elastream.handover.testing.handover import MemoryRecord, SimulatedOrigin
from elastream.handover.transport import TargetLink
from elastream.model.errors import ElastreamError, ProblemError, SparkError


def test_an_origin_that_is_asked_halts_and_its_record_says_so(tmp_path: Path) -> None:
    feed, notes, records = Feed(), Notes(), RecordFile(tmp_path / "origin.json")
    with serving(feed, tmp_path, notes) as (server, side):
        link = TargetLink(server.address, TOKEN)
        ask_for_checkpoint(link, records, SHAPE.name, patience_s=60)
        link.close()
        assert isinstance(side.ended(stop=False).phase, Yielded)
    assert feed.origin.is_halted
    assert notes.await_kind("yield").owner == "origin"
    with taken(records, patience_s=60):
        record = records.read()
        assert record is not None
        with pytest.raises(ProblemError, match=r"left to a coordinator.*remove the record"):
            expect_unyielded(record)
        error = given_up(records, SHAPE.name, SparkError("the disk is full"))
    assert "start it there" in str(error)
    expect_unyielded(records.read())


@pytest.mark.parametrize(
    ("token", "query", "why"),
    [
        (TOKEN, "another", "this is the query 'q', not 'another'"),
        ("another token, as long", SHAPE.name, "wrong token"),
    ],
)
def test_who_asks_for_another_query_or_without_the_token_is_refused(
    tmp_path: Path, token: str, query: str, why: str
) -> None:
    feed, records = Feed(), RecordFile(tmp_path / "origin.json")
    with serving(feed, tmp_path, Notes()) as (server, side):
        link = TargetLink(server.address, token)
        with pytest.raises(SparkError, match=why):
            ask_for_checkpoint(link, records, query, patience_s=60)
        link.close()
        assert isinstance(side.ended().phase, Serving)
    assert not feed.origin.is_halted
    assert records.read() is None


def test_an_origin_in_the_middle_of_a_handover_is_not_to_be_had(tmp_path: Path) -> None:
    feed, notes = Feed(), Notes()
    records = RecordFile(tmp_path / "origin.json")
    with serving(feed, tmp_path, notes) as (server, _):
        target = joining(feed, server.address, tmp_path, notes)
        notes.await_kind("commit")
        link = TargetLink(server.address, TOKEN)
        with pytest.raises(SparkError, match="handed over already"):
            ask_for_checkpoint(link, records, SHAPE.name, patience_s=60)
        link.close()
        for row in ROWS[CONNECTS_AT:]:
            feed.origin.read(0, row)
        target.ended()
    assert not feed.origin.is_halted


class Stubborn(SimulatedOrigin):
    """A query whose batch does not come to its end."""

    def halt(self) -> None:
        super().halt()
        raise SparkError("a batch was cut")


@pytest.mark.parametrize(("stubborn", "full"), [(True, False), (False, True)])
def test_a_query_that_cannot_be_let_go_goes_on(stubborn: bool, full: bool) -> None:
    origin = Stubborn(SHAPE) if stubborn else SimulatedOrigin(SHAPE)
    records, sent, notes = MemoryRecord(), list[Message](), Notes()
    driver = OriginDriver(origin, SHAPE, "term", records, send=sent.append, log=notes)
    records.is_full = full
    driver.handle(Received(Yield("move", SHAPE.name)))
    why = "a batch was cut" if stubborn else "No space left on device"
    assert sent == [Refuse("move", why)]
    assert not origin.is_halted
    assert records.read() is None
    assert [note.kind for note in notes.notes] == ["refuse"]
    records.is_full = False
    if not stubborn:
        driver.handle(Received(Yield("again", SHAPE.name)))
        assert records.read() == Record("again", SHAPE.name, "yielded", term="term")
        assert driver.machine.is_done


def test_what_is_carried_is_what_the_query_needs_whole_or_not_at_all(tmp_path: Path) -> None:
    origin, target = tmp_path / "origin", tmp_path / "b" / "sums"
    for name in ("checkpoint/state/0/1.delta", "produced.json", "token", "record.json"):
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        (origin / name).write_text(name)
    for name in ("results/side=origin/part", "handover.jsonl", "decisions.jsonl.1", "join.out"):
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        (origin / name).write_text(name)
    carried = carry(origin, target)
    files = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert files == {"checkpoint/state/0/1.delta", "produced.json"}
    assert (carried.files, carried.size) == (2, sum(map(len, files)))
    with pytest.raises(ProblemError, match="is there already"):
        carry(origin, target)
    (tmp_path / "file").touch()
    with pytest.raises(ElastreamError):
        carry(origin, tmp_path / "file")
    with pytest.raises(SparkError, match="cannot be copied"):
        carry(tmp_path / "nowhere", tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "file", "origin"]


def test_a_record_is_taken_when_its_process_lets_go(tmp_path: Path) -> None:
    theirs, ours = (RecordFile(tmp_path / "record.json") for _ in range(2))
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with theirs.hold():
            held.set()
            go.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    with pytest.raises(ProblemError, match="in use"), taken(ours, patience_s=0):
        pass
    go.set()
    with taken(ours, patience_s=60):
        pass
    holder.join()
