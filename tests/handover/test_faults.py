"""What goes wrong around a handover: sockets, disks, clocks, and sides that come at a bad time."""

from __future__ import annotations

import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.handover.scenarios import scenarios
from tests.handover.sides import (
    PATIENT,
    SHAPE,
    TOKEN,
    Feed,
    Notes,
    joining,
    serving,
    uninterrupted,
)
from tests.handover.test_protocol import check

from elastream.atomic_io import make_folder, write_json
from elastream.handover.driver import OriginDriver, TargetDriver
from elastream.handover.events import Clock, FirstSeen, Received, Timing
from elastream.handover.ledger import Note, Record, RecordFile, Side
from elastream.handover.messages import (
    Accept,
    Commit,
    Join,
    Leave,
    Message,
    Offer,
    Ready,
    Taken,
)
from elastream.handover.model import Boundary
from elastream.handover.origin import Committed
from elastream.handover.seal import read_token
from elastream.handover.target import Left, Owning, Prepared
from elastream.handover.testing.handover import MemoryRecord, SimulatedOrigin, SimulatedTarget
from elastream.handover.transport import Address, OriginServer, TargetLink
from elastream.model.errors import ProblemError
from elastream.testing import HandoverScenario, SimulatedHandover

BOUNDARY = Boundary(20, 22, (22,), (0,))


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def no_files_left() -> Iterator[None]:
    """Let this process open no file and no socket more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    filled = [os.dup(0) for _ in range(highest)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in filled:
            os.close(descriptor)


def test_a_listener_that_has_no_files_left_says_so_and_listens_on() -> None:
    lines: list[str] = []
    server = OriginServer(Address(), TOKEN, on_rejected=lines.append)
    with socket.socket() as knocking:
        knocking.settimeout(60)
        with no_files_left():
            knocking.connect((server.address.host, server.address.port))
            until(lambda: lines)
        assert "Too many open files" in lines[0]
        assert knocking.recv(1)
    assert len(lines) == 1
    server.close()


def test_strangers_that_send_a_byte_now_and_then_hold_no_place_for_long() -> None:
    server = OriginServer(Address(), TOKEN, stranger_s=0.3)
    where = (server.address.host, server.address.port)
    with socket.create_connection(where, timeout=60) as stranger:
        ended = threading.Event()

        def trickle() -> None:
            try:
                while not ended.wait(0.05):
                    stranger.sendall(b"x")
            except OSError:
                pass

        thread = threading.Thread(target=trickle)
        thread.start()
        with suppress(ConnectionError):  # reset, where a byte of it was not read
            while stranger.recv(4096):
                pass
        ended.set()
        thread.join()
    server.close()


def test_strangers_that_hold_all_places_make_room_for_a_target(tmp_path: Path) -> None:
    feed, report, result = Feed(), Notes(), Notes()
    with serving(feed, tmp_path, report) as (server, origin), ExitStack() as strangers:
        for _ in range(40):
            stranger = strangers.enter_context(
                socket.create_connection((server.address.host, server.address.port), timeout=60)
            )
            stranger.sendall(b"x")
        target = joining(feed, server.address, tmp_path, result)
        report.await_kind("confirm")
        assert feed.finish() == uninterrupted()
        origin.ended(stop=False)
        target.ended()


def test_a_target_that_connects_again_leaves_no_dead_connection_behind() -> None:
    server = OriginServer(Address(), TOKEN)
    links = [TargetLink(server.address, TOKEN) for _ in range(20)]
    for link in links:  # none is closed: their machine has died, and no one informed the origin
        link.send(Join("h", SHAPE))
        assert server.receive(60) == Join("h", SHAPE)
    last = TargetLink(server.address, TOKEN)
    last.send(Join("other", SHAPE))
    assert server.receive(60) == Join("other", SHAPE)
    for link in (*links, last):
        link.close()
    server.close()


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    read_token(path, create=True)
    for mode in (0o604, 0o644, 0o602, 0o660):
        path.chmod(mode)
        for create in (True, False):
            with pytest.raises(ProblemError, match=f"mode is {mode:o}.*chmod 600"):
                read_token(path, create=create)
    for mode in (0o400, 0o600, 0o640):  # a group may share it with the other side
        path.chmod(mode)
        read_token(path)


def test_what_must_outlive_a_fall_of_the_machine_is_synced_with_every_folder_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def seen(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    folder = make_folder(tmp_path / "a" / "b")
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    synced.clear()
    assert make_folder(folder) == folder
    assert synced == []
    write_json(folder / "produced.json", 7, synced=True)
    assert synced[-1] == str(folder)


def target_driver(records: MemoryRecord, sent: list[Message], notes: list[Note]) -> TargetDriver:
    records.record = Record("h", "q", "prepared", BOUNDARY, "t")
    query = SimulatedTarget(SHAPE)
    query.connect()
    return TargetDriver(
        query, SHAPE, "new", records, send=sent.append, log=notes.append, timing=PATIENT
    )


def test_a_target_that_cannot_start_at_the_boundary_leaves_before_it_is_ready() -> None:
    class Elsewhere(SimulatedTarget):
        def expect(self, boundary: Boundary) -> None:
            raise ProblemError("rows.counts", f"{boundary.counts} cannot be read here")

    records, sent, notes = MemoryRecord(), list[Message](), list[Note]()
    driver = TargetDriver(
        Elsewhere(SHAPE), SHAPE, "h", records, send=sent.append, log=notes.append, timing=PATIENT
    )
    driver.handle(Received(Accept("h", "t")))
    driver.handle(FirstSeen((7,)))
    driver.handle(Received(Offer("h", "t", replace(BOUNDARY, counts="/there/9"))))
    assert driver.machine.phase == Left("rows.counts: /there/9 cannot be read here")
    assert not any(isinstance(message, Ready) for message in sent)
    assert isinstance(sent[-1], Leave)
    assert records.record is not None
    assert records.record.state == "left"


def test_windows_are_put_out_only_when_it_is_written_that_they_are_owned() -> None:
    records, sent, notes = MemoryRecord(), list[Message](), list[Note]()
    driver = target_driver(records, sent, notes)
    records.is_full = True
    for _ in range(3):
        driver.handle(Received(Commit("h", BOUNDARY)))
        assert isinstance(driver.machine.phase, Prepared)
    assert not any(isinstance(message, Taken) for message in sent)
    assert [note.kind for note in notes] == ["restart", "unwritten"]
    assert "No space left on device" in notes[-1].reason
    records.is_full = False
    driver.handle(Received(Commit("h", BOUNDARY)))
    assert isinstance(driver.machine.phase, Owning)
    assert records.record is not None
    assert records.record.state == "owns"
    assert sent[-1] == Taken("h")


def test_a_confirmation_that_cannot_be_written_is_waited_for_again() -> None:
    records, sent, notes = MemoryRecord(), list[Message](), list[Note]()
    records.record = Record("h", "q", "committed", BOUNDARY, "t")
    query = SimulatedOrigin(SHAPE)
    driver = OriginDriver(query, SHAPE, "t2", records, send=sent.append, log=notes.append)
    records.is_full = True
    driver.handle(Received(Taken("h")))
    phase = driver.machine.phase
    assert isinstance(phase, Committed)
    assert not phase.confirmed
    records.is_full = False
    driver.handle(Received(Taken("h")))
    phase = driver.machine.phase
    assert isinstance(phase, Committed)
    assert phase.confirmed
    assert records.record.confirmed


def test_a_log_that_cannot_be_written_is_caught_up_with_later() -> None:
    """The record decides; the log is for people, and must not end a query."""
    records, sent, written = MemoryRecord(), list[Message](), list[Note]()
    is_full = True

    def log(note: Note) -> None:
        if is_full:
            raise OSError(28, "No space left on device")
        written.append(note)

    query = SimulatedTarget(SHAPE)
    query.connect()
    records.record = Record("h", "q", "prepared", BOUNDARY, "t")
    driver = TargetDriver(query, SHAPE, "new", records, send=sent.append, log=log)
    driver.handle(Received(Commit("h", BOUNDARY)))
    assert isinstance(driver.machine.phase, Owning)
    is_full = False
    driver.handle(Clock(1))
    assert [note.kind for note in written] == ["restart", "own"]


@given(
    scenario=scenarios(),
    side=st.sampled_from(["origin", "target"]),
    full=st.frozensets(st.integers(0, 6), min_size=1, max_size=5),
    crash=st.none() | st.tuples(st.sampled_from(["origin", "target"]), st.integers(0, 12)),
)
@settings(max_examples=min(400, settings().max_examples))
def test_nothing_is_lost_or_doubled_when_disks_fill_in_the_middle(
    scenario: HandoverScenario,
    side: Side,
    full: frozenset[int],
    crash: tuple[Side, int] | None,
) -> None:
    check(SimulatedHandover(replace(scenario, full_disk=side, full_at=full, crash=crash)).run())


@given(
    scenario=scenarios(),
    side=st.sampled_from(["origin", "target"]),
    turn=st.integers(0, 120),
    by_ms=st.sampled_from([-3_600_000, -1500, 1500, 5000, 3_600_000]),
)
@settings(max_examples=min(400, settings().max_examples))
def test_nothing_is_lost_or_doubled_when_a_clock_jumps(
    scenario: HandoverScenario, side: Side, turn: int, by_ms: int
) -> None:
    check(SimulatedHandover(replace(scenario, clock_jump=(side, turn, by_ms))).run())


def test_of_two_targets_at_once_one_takes_over_and_the_other_is_refused(tmp_path: Path) -> None:
    report, feeds, notes = Notes(), (Feed(), Feed()), (Notes(), Notes())
    with serving(feeds[0], tmp_path, report) as (server, origin):
        sides = [
            joining(feed, server.address, tmp_path / str(i), entry)
            for i, (feed, entry) in enumerate(zip(feeds, notes, strict=True))
        ]
        report.await_kind("confirm")
        report.await_kind("refuse")
        for feed in feeds:
            feed.finish()
        origin.ended(stop=False)
        phases = [side.ended().phase for side in sides]
    (left,) = (phase for phase in phases if isinstance(phase, Left))
    assert left.why in ("another handover is under way", "the query was handed over already")
    assert any(isinstance(phase, Owning) for phase in phases)
    put_out = [output for feed in feeds for output in feed.target.put_out]
    assert feeds[0].origin.put_out + put_out == uninterrupted()


def test_two_sides_on_one_folder_are_refused_before_a_query_starts(tmp_path: Path) -> None:
    mine, theirs = RecordFile(tmp_path / "record.json"), RecordFile(tmp_path / "record.json")
    with mine.hold():
        with mine.hold():  # the same owner may ask again
            pass
        with pytest.raises(ProblemError, match="in use by another process"), theirs.hold():
            pass
    with theirs.hold():
        pass


def test_an_origin_that_comes_back_after_its_target_has_finished_ends_some_time(
    tmp_path: Path,
) -> None:
    """No one confirms any more; its windows are put out, and its record says whose the rest is."""
    timing = Timing(repeat_ms=20, patience_ms=100, reach_ms=200, linger_ms=300)
    RecordFile(tmp_path / "origin.json").write(Record("h", "q", "committed", BOUNDARY, "t"))
    feed, report = Feed(), Notes()
    with serving(feed, tmp_path, report, timing) as (_, origin):
        report.await_kind("restart")
        feed.finish()
        machine = origin.ended(stop=False)
    assert isinstance(machine.phase, Committed)
    assert not machine.phase.confirmed
    assert sorted(note.kind for note in report.notes) == ["end", "finish", "restart", "silent"]
    assert [output for output in uninterrupted() if output.coordinate < 22] == feed.origin.put_out
    kept = RecordFile(tmp_path / "origin.json").read()
    assert kept is not None
    assert kept.state == "committed"


def test_an_origin_that_comes_back_late_hears_from_a_target_that_runs() -> None:
    """A target says that it owns its windows for as long as it runs, ever more rarely."""
    records, sent, notes = MemoryRecord(), list[Message](), list[Note]()
    driver = target_driver(records, sent, notes)
    driver.handle(Received(Commit("h", BOUNDARY)))
    day_ms = 86_400_000
    sent.clear()
    driver.handle(Clock(day_ms))
    assert sent == [Taken("h")]
    for later in range(0, 600_000, 1000):
        driver.handle(Clock(day_ms + later))
    assert 2 <= len(sent) <= 20
