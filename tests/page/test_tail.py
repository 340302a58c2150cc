from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.page.runs import begun, logged

from elastream.core.decision_log import DecisionLog
from elastream.core.scene_lines import whole_record
from elastream.core.scenes import take_scene
from elastream.model.errors import ProblemError
from elastream.page.tail import Tail


def lines(tail: Tail) -> list[str]:
    position: int | None = None
    messages: list[str] = []
    while (portion := tail.run.history.read(position)).lines:
        messages += portion.lines
        position = portion.position
    return messages


def test_a_log_of_a_run_that_is_over_is_shown_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    loop = logged(path)
    tail = Tail(path)
    seen = tail.run.seen()
    assert seen is not None
    expected = whole_record(take_scene(loop.state))
    assert {t: fields[0] for t, fields in seen["tasks"].items()} == {
        t: fields[0] for t, fields in expected["tasks"].items()
    }
    assert tail.run.why_over == "detached; the queries run on as they are"
    fields = [json.loads(line) for line in lines(tail)]
    assert [r["reason"] for r in fields if r["kind"] == "done"] == [
        decision.reason for decision in loop.of("done")
    ]


def test_what_is_added_is_followed_also_into_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    log = DecisionLog(path, max_bytes=60_000)
    cluster, loop = begun()
    loop.add_log(log.append)
    loop.start()
    cluster.advance(10)
    tail = Tail(path)
    before, begun_over = len(lines(tail)), tail.run.why_over
    while not (tmp_path / "decisions.jsonl.1").exists():
        cluster.advance(5)
        tail.look()
    cluster.advance(20)
    loop.detach()
    tail.look()
    assert len(lines(tail)) > before
    assert begun_over is None
    assert tail.run.why_over is not None
    written = [
        line
        for file in (tmp_path / "decisions.jsonl.1", path)
        for line in file.read_text().splitlines()
        if '"kind":"sample"' not in line
    ]
    assert lines(tail) == written


def test_a_log_of_several_files_is_read_from_the_oldest(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    log = DecisionLog(path, max_bytes=20_000, keep=2)
    cluster, loop = begun()
    loop.add_log(log.append)
    with loop:
        cluster.advance(300)
    tail = Tail(path)
    assert tail.run.seen() is not None
    assert json.loads(lines(tail)[-1])["kind"] in ("detach", "scene")


def test_a_torn_end_is_waited_for_and_a_torn_line_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    logged(path, detach=False)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    path.write_bytes(whole[: last + 20])
    tail = Tail(path)
    before = len(lines(tail))
    with path.open("ab") as file:
        file.write(whole[last + 20 :])
    tail.look()
    assert len(lines(tail)) >= before
    with path.open("ab") as file:
        file.write(b'{"v": 2, "at_ms"\n' + whole[last:])
    tail.look()
    assert len(tail.torn) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("hello\n", "line 1: is not a decision"),
        ('{"v":9,"kind":"hold"}\n', "has version 9; this elastream reads 2 to 3"),
        ('{"v":2,"kind":"scene"}\n', "at_ms"),
        ('{"v":2,"kind":"riddle"}\n', "is missing"),
    ],
)
def test_a_file_that_is_no_log_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_text(text)
    with pytest.raises(ProblemError, match=says):
        Tail(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="cannot be read"):
        Tail(tmp_path / "none.jsonl")


def test_what_is_wrong_later_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    logged(path, detach=False)
    tail = Tail(path)
    with path.open("a") as file:
        file.write("hello\n")
    with pytest.raises(ProblemError, match="is not a decision"):
        tail.look()
    tail.start()
    assert tail.run.history.wait(10**9, 60)


def test_a_log_that_begins_in_the_middle_waits_for_a_whole_scene(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    logged(path, seconds=150)
    text = path.read_text().splitlines()
    wholes = [n for n, line in enumerate(text) if '"whole":true' in line]
    assert len(wholes) > 1
    path.write_text("\n".join(text[wholes[0] + 1 :]) + "\n")
    tail = Tail(path)
    assert tail.run.seen() is not None
    scenes = [r for r in map(json.loads, lines(tail)) if r["kind"] == "scene"]
    assert scenes[0]["whole"]
