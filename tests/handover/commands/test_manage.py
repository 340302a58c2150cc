"""The coordinator over decision logs; a small program is in for the target that it starts.

Real applications are in ``tests/handover/spark/test_managed.py``.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from elastream import Decision
from elastream.cli.main import main
from elastream.core.decision_log import DecisionLog
from elastream.core.samples import Sample, TaskSample
from elastream.handover.ledger import RecordFile
from elastream.handover.model import QueryShape, Window
from elastream.handover.session import hand_over
from elastream.handover.testing.handover import SimulatedOrigin
from elastream.handover.transport import Address, OriginServer
from elastream.model.observation import TaskId

TOKEN = "a token that is long enough"
COMMITS = "from pathlib import Path; Path('target/checkpoint/commits/8').touch()"
WINDOW = {"kind": "time", "length": 10_000, "slide": 2_000}
OWNS = """
import sys
from pathlib import Path
from elastream.handover.ledger import Note, OwnershipLog
log = OwnershipLog(Path(sys.argv[1]) / "handover.jsonl")
log.append(Note("target", sys.argv[2], "h", "split", "as requested"), at_ms=1)
"""


def write_log(path: Path, busy: float, executors: int = 2) -> None:
    names = tuple(str(i) for i in range(executors))
    tasks = {
        TaskId("sums", 0, i): TaskSample(names[i % executors], busy / 2, 250_000_000)
        for i in range(2)
    }
    log = DecisionLog(path)
    log.append(Sample(1, names, executors, tasks, {"sums": 1000.0}))
    log.append(Decision(2, 1, "hold", "quiet", executors, utilisation=busy / executors))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Application ``a`` is full, ``b`` is idle."""
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "a.jsonl", 2.0)
    write_log(tmp_path / "b.jsonl", 0.1, executors=8)
    return write(tmp_path, {})


def write(folder: Path, changed: dict[str, Any]) -> Path:
    content = {
        "applications": [
            {"name": "a", "log": "a.jsonl", "queries": {"sums": WINDOW}},
            {"name": "b", "log": "b.jsonl"},
        ],
        "bytes_per_s": 50e6,
        "restart_s": 8,
        **changed,
    }
    path = folder / "manage.json"
    path.write_text(json.dumps(content))
    return path


def joining(kind: str) -> dict[str, Any]:
    command = [sys.executable, "-c", OWNS, "target", kind]
    joins = {"sums": {"command": command, "folder": "target"}}
    return {
        "applications": [
            {"name": "a", "log": "a.jsonl", "queries": {"sums": WINDOW}},
            {"name": "b", "log": "b.jsonl", "joins": joins},
        ]
    }


def test_it_says_which_query_should_go_where_and_how(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["handover", "manage", str(file)]) == 0
    line = (
        "hand over 'sums' from 'a' to 'b': a handover takes 9.0 s and moving its state takes 18.0 s"
    )
    assert capsys.readouterr().out == f"{line}\n"
    assert not (file.parent / "target").exists()


def test_a_query_goes_back_to_the_first_application_that_lists_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "guest.jsonl", 0.4)
    home: dict[str, Any] = {"name": "home", "log": "none.jsonl", "executors": 2}
    guest: dict[str, Any] = {"name": "guest", "log": "guest.jsonl", "queries": {"sums": WINDOW}}
    own = home | {"queries": {"sums": WINDOW}}
    for applications, line in (
        ([own, guest], "hand over 'sums' from 'guest' back to 'home': a handover takes 9.0 s"),
        ([guest, own], "nothing to do: guest 20%, home 0%"),
        ([home, guest], "nothing to do: home 0%, guest 20%"),
    ):
        file = write(tmp_path, {"applications": applications})
        assert main(["handover", "manage", str(file)]) == 0
        assert capsys.readouterr().out.startswith(line)


@pytest.mark.usefixtures("file")
def test_nothing_to_do_and_nowhere_to_go_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = {"applications": [{"name": "a", "log": "a.jsonl", "queries": {"sums": WINDOW}}]}
    assert main(["handover", "manage", str(write(tmp_path, one))]) == 3
    assert "no query of it fits into another application" in capsys.readouterr().out
    assert main(["handover", "manage", str(write(tmp_path, {"high": 1.0}))]) == 0
    assert capsys.readouterr().out == "nothing to do: a 100%, b 1%\n"


def test_it_starts_the_target_and_waits_until_the_windows_are_taken(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, joining("own"))
    assert main(["handover", "manage", str(file), "--act"]) == 0
    out = capsys.readouterr().out
    assert "started process" in out
    assert "the target owns its windows; see target/handover.jsonl" in out


def test_a_target_that_leaves_or_cannot_be_started_is_one_line(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, joining("leave"))
    assert main(["handover", "manage", str(file), "--act"]) == 2
    assert "the target has ended without the query" in capsys.readouterr().err
    wrong = joining("own")
    wrong["applications"][1]["joins"]["sums"]["command"] = ["/no/such/program"]
    write(tmp_path, wrong)
    assert main(["handover", "manage", str(file), "--act"]) == 2
    assert "command: /no/such/program cannot be started" in capsys.readouterr().err
    write(tmp_path, {})
    assert main(["handover", "manage", str(file), "--act"]) == 2
    assert "says nothing of 'sums'; how is it started there?" in capsys.readouterr().err


MIGRATES = {"restart_s": 0, "bytes_per_s": 1e12}


def moving(door: dict[str, str] | None, command: list[str]) -> dict[str, Any]:
    doors = {} if door is None else {"sums": door}
    return {
        "applications": [
            {"name": "a", "log": "a.jsonl", "queries": {"sums": WINDOW}, "doors": doors},
            {"name": "b", "log": "none.jsonl", "executors": 8,
             "resumes": {"sums": {"command": command, "folder": "target"}}},
        ],
        **MIGRATES,
    }  # fmt: skip


def test_a_query_is_moved_with_its_state_where_that_is_sooner(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The origin is one of simulated streams; the target, a program that commits a batch."""
    (tmp_path / "origin/checkpoint/commits").mkdir(parents=True)
    (tmp_path / "origin/checkpoint/commits/7").touch()
    (tmp_path / "origin/token").write_text(f"{TOKEN}\n")
    (tmp_path / "origin/token").chmod(0o600)
    shape = QueryShape("sums", Window.of("time", 10_000, 2_000), 1)
    server, stop = OriginServer(Address(), TOKEN), threading.Event()
    origin = threading.Thread(
        target=hand_over,
        args=(SimulatedOrigin(shape), shape, server, RecordFile(tmp_path / "origin/record.json")),
        kwargs={"log": lambda _: None, "stop": stop},
    )
    origin.start()
    door = {"address": str(server.address), "token_file": "origin/token", "folder": "origin"}
    try:
        write(tmp_path, moving(None, ["none"]))
        assert main(["handover", "manage", str(file), "--act"]) == 2
        assert "where can it be asked for its checkpoint?" in capsys.readouterr().err
        write(tmp_path, moving(door, [sys.executable, "-c", COMMITS]))
        assert main(["handover", "manage", str(file), "--act"]) == 0
    finally:
        stop.set()
        origin.join()
        server.close()
    out = capsys.readouterr().out
    assert "migrate 'sums' from 'a' to 'b'" in out
    assert "0 bytes in 1 files are in target" in out
    assert "'sums' goes on there; it paused for" in out
    assert main(["handover", "manage", str(file), "--act"]) == 2
    assert "target: is there already" in capsys.readouterr().err


def test_an_application_that_has_ended_or_is_not_measured_has_nothing_to_give(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").unlink()
    write_log(tmp_path / "a.jsonl", 0.0)  # a first sample, before any batch was seen
    DecisionLog(tmp_path / "a.jsonl").append(Decision(3, 1, "hold", "busy", 2, utilisation=1.0))
    assert main(["handover", "manage", str(file)]) == 3
    assert "no query of it fits" in capsys.readouterr().out
    write_log(tmp_path / "a.jsonl", 2.0)
    DecisionLog(tmp_path / "a.jsonl").append(Decision(4, 1, "detach", "ended", 2))
    assert main(["handover", "manage", str(file)]) == 0
    assert capsys.readouterr().out == "nothing to do: a 0%, b 1%\n"


def test_it_waits_for_an_application_that_has_only_begun(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Decision(1, None, "attach", "watches", 1)
    (tmp_path / "a.jsonl").unlink()
    DecisionLog(tmp_path / "a.jsonl").append(begun)
    monkeypatch.setattr("time.sleep", lambda _: write_log(tmp_path / "a.jsonl", 2.0))
    monkeypatch.setattr("elastream.handover.commands.manage.relief", ended)
    assert main(["handover", "manage", str(file)]) == 2
    assert "has no sample yet" in capsys.readouterr().err
    assert main(["handover", "manage", str(file), "--every", "1"]) == 130
    assert "has no sample yet; wait for some batches" in capsys.readouterr().out


def ended(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"applications": []}, "applications: [] is not a list of applications"),
        ({"applications": [{"name": "a"}]}, "applications[0].log: is missing"),
        ({"applications": [{"name": "a", "log": "none"}]}, "none: cannot be read"),
        (
            {"applications": [{"name": "a", "log": "a", "executors": 0}]},
            "applications[0].executors: 0 is too small",
        ),
        (
            {
                "applications": [
                    {
                        "name": "a",
                        "log": "a",
                        "doors": {"q": {"address": "here", "token_file": "t", "folder": "f"}},
                    }
                ]
            },
            "applications[0].doors.q.address: 'here' is not HOST:PORT",
        ),
        ({"restart_s": -1}, "restart_s: "),
        ({"target": 0.95}, "target: 0.95 is above high, 0.9"),
        ({"speed": 1}, "speed: "),
    ],
)
@pytest.mark.usefixtures("file")
def test_a_file_that_is_wrong_is_one_line(
    tmp_path: Path,
    changed: dict[str, Any],
    line: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["handover", "manage", str(write(tmp_path, changed))]) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1
