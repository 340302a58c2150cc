"""The local door: who may come in, and how much of the process a client can take."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.control.steered import Steered, steered

from elastream import ElastreamError, ProblemError
from elastream.control import local_door
from elastream.control.commands import LONGEST, Answer
from elastream.control.local_door import LocalDoor, ask_locally, checked_path

NOT_ROOT = os.geteuid() != 0
HANG_S = 120.0


@pytest.fixture
def loop() -> Iterator[Steered]:
    with steered() as found:
        yield found


@pytest.fixture
def door(loop: Steered, tmp_path: Path) -> Iterator[LocalDoor]:
    made = LocalDoor(tmp_path / "run.sock", loop.door)
    yield made
    made.close()


def connected(door: LocalDoor) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(HANG_S)
    connection.connect(str(door.path))
    return connection


def answer_to(connection: socket.socket) -> Answer:
    with connection, connection.makefile("rb") as lines:
        return Answer.of(lines.readline())


def test_a_command_is_answered_and_who_gave_it_is_known(door: LocalDoor, loop: Steered) -> None:
    answer = ask_locally(door.path, {"command": "scale", "executors": 3})
    assert answer.taken
    assert f"process {os.getpid()}" in answer.says
    assert loop.loop.of("scale-out")[-1].reason == answer.says


def test_only_its_user_can_open_the_socket(door: LocalDoor) -> None:
    mode = door.path.lstat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert [each.name for each in door.path.parent.iterdir()] == ["run.sock"]


@pytest.mark.skipif(NOT_ROOT, reason="only root can become another user")
@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_another_user_is_refused_by_the_mode_and_by_the_kernel_s_word(
    door: LocalDoor, loop: Steered, mode: int
) -> None:
    """With mode 0666, as if somebody had opened it, the peer's user is still refused."""
    for folder in (door.path.parent, *door.path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    door.path.chmod(mode)
    program = textwrap.dedent("""
        import os, socket, sys
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(sys.argv[1])
            connection.sendall(b'{"command": "pause"}\\n')
        except PermissionError:
            print("no permission")
        except BrokenPipeError:
            pass
        else:
            pass
        print(connection.recv(9999).decode() if connection.fileno() >= 0 else "")
    """)
    run = subprocess.run(
        [sys.executable, "-c", program, str(door.path)], capture_output=True, text=True, check=False
    )
    expected = "no permission" if mode == 0o600 else "this loop belongs to another user"
    assert expected in run.stdout, run.stderr
    assert loop.commands == []
    assert loop.state.pause is None


@pytest.mark.skipif(NOT_ROOT, reason="only root can become another user")
def test_a_client_sends_nothing_to_a_socket_at_which_another_user_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    tmp_path.chmod(0o1777)
    path = tmp_path / "run.sock"
    program = textwrap.dedent("""
        import os, socket, sys
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        squatter = socket.socket(socket.AF_UNIX)
        squatter.bind(sys.argv[1])
        squatter.listen(1)
        print("listens", flush=True)
        print(squatter.accept()[0].recv(9999), flush=True)
    """)
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as squatter:
        assert squatter.stdout is not None
        assert squatter.stdout.readline() == "listens\n"
        monkeypatch.setattr(os, "geteuid", lambda: 1234)  # root may speak to anybody's program
        with pytest.raises(ElastreamError, match=r"listens there, not your program: nothing was"):
            ask_locally(path, {"command": "pause"})
        assert squatter.stdout.read() == "b''\n"


@pytest.mark.parametrize(("mode", "allowed"), [(0o777, False), (0o1777, True), (0o775, True)])
def test_a_folder_in_which_others_could_replace_the_socket_is_refused(
    mode: int, allowed: bool, tmp_path: Path
) -> None:
    tmp_path.chmod(mode)
    if allowed:
        assert checked_path(tmp_path / "run.sock")
        return
    with pytest.raises(ProblemError, match=r"^control: .* can be written to by all users"):
        checked_path(tmp_path / "run.sock")


@pytest.mark.skipif(NOT_ROOT, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(ProblemError, match=r"belongs to nobody, who could replace"):
        checked_path(tmp_path / "run.sock")


def test_a_line_that_is_cut_short_is_not_carried_out(door: LocalDoor, loop: Steered) -> None:
    connection = connected(door)
    connection.sendall(b'{"command": "pause"}')
    connection.shutdown(socket.SHUT_WR)
    with connection:
        assert connection.recv(9999) == b""
    assert loop.commands == []


@pytest.mark.parametrize("line", [b"\n", b"pause\n", b"\x00\xff\n", b'{"command": "pause"\n'])
def test_a_damaged_line_is_refused_with_an_answer(door: LocalDoor, line: bytes) -> None:
    connection = connected(door)
    connection.sendall(line)
    assert answer_to(connection).says == "a command is not JSON"


def test_a_line_that_does_not_end_is_not_read_to_its_end(door: LocalDoor, loop: Steered) -> None:
    connection = connected(door)
    connection.sendall(b" " * LONGEST + b" ")
    assert "a command has at most" in answer_to(connection).says
    assert all(len(text) <= LONGEST + 1 for text, _ in loop.commands)


def test_a_slow_client_is_left_when_its_time_is_over(
    loop: Steered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_door, "_COMMAND_S", 0.2)
    door = LocalDoor(tmp_path / "run.sock", loop.door)
    with connected(door) as slow:
        slow.sendall(b'{"command"')
        assert slow.recv(1) == b""
    assert ask_locally(door.path, {"command": "status"}).taken
    door.close()


def test_too_many_connections_are_turned_away_and_the_next_is_served(
    loop: Steered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_door, "_CONNECTIONS", 2)
    entered, go_on = threading.Semaphore(0), threading.Event()

    def slow(text: bytes, by: str) -> Answer:
        entered.release()
        go_on.wait(HANG_S)
        return loop.door(text, by)

    door = LocalDoor(tmp_path / "run.sock", slow)
    held = [connected(door) for _ in range(2)]
    for each in held:
        each.sendall(b'{"command": "status"}\n')
        entered.acquire(timeout=HANG_S)
    assert "too many connections" in answer_to(connected(door)).says
    go_on.set()
    assert all(answer_to(each).taken for each in held)
    door.close()


def test_a_socket_that_a_dead_program_has_left_is_replaced_and_one_in_use_is_not(
    door: LocalDoor, loop: Steered, tmp_path: Path
) -> None:
    with pytest.raises(ProblemError, match="is in use by another program"):
        checked_path(door.path)
    left = tmp_path / "left.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left))
    second = LocalDoor(left, loop.door)
    assert ask_locally(left, {"command": "status"}).taken
    second.close()
    assert not left.exists()


def test_a_path_that_is_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    link = tmp_path / "link"
    link.symlink_to(file)
    for path, why in ((file, "exists and is not a socket"), (link, "exists and is not a socket")):
        with pytest.raises(ProblemError, match=why):
            checked_path(path)
    with pytest.raises(ProblemError, match="is not a folder"):
        checked_path(tmp_path / "none" / "run.sock")
    assert file.read_text() == "text"


def test_the_path_may_be_longer_than_the_address_of_a_socket(loop: Steered, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    door = LocalDoor(folder / "run.sock", loop.door)
    assert ask_locally(door.path, {"command": "status"}).taken
    door.close()


def test_a_client_says_what_is_wrong_with_the_socket(tmp_path: Path) -> None:
    with pytest.raises(ElastreamError, match="there is no such socket"):
        ask_locally(tmp_path / "none", {"command": "status"})
    left = tmp_path / "left.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left))
    with pytest.raises(ElastreamError, match="nothing listens there any more"):
        ask_locally(left, {"command": "status"})


def test_an_answer_is_one_line_of_json(door: LocalDoor) -> None:
    connection = connected(door)
    connection.sendall(b'{"command": "status"}\n')
    with connection, connection.makefile("rb") as lines:
        (line,) = list(lines)
    assert json.loads(line)["taken"] is True
