"""Commands to a running loop: checked as a whole, logged, and answered."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.control.steered import POLICY, steered

from elastream.control.commands import COMMANDS, LONGEST, Answer, answered


def test_scale_is_answered_with_what_is_logged_and_names_who_asked() -> None:
    with steered() as loop:
        answer = loop.ask(command="scale", executors=4)
        assert answer.taken
        assert answer.says == "scale-out to 4: asked for by eve"
        assert answer.status["change"]["executors"] == 4
        logged = loop.loop.of("scale-out")[-1]
        assert logged.reason == answer.says
        assert logged.at_ms is not None


def test_a_number_out_of_bounds_is_refused_and_the_refusal_is_logged() -> None:
    with steered() as loop:
        answer = loop.ask(command="scale", executors=9)
        assert not answer.taken
        assert answer.says == "9 executors were asked for; allowed are 1 to 4"
        assert loop.loop.of("refuse")[-1].reason == answer.says


def test_pause_in_the_middle_of_a_change_says_that_it_ends() -> None:
    with steered() as loop:
        loop.ask(command="scale", executors=4)
        loop.cluster.advance(1)
        answer = loop.ask(command="pause")
        assert "the scale-out under way ends here" in answer.says
        assert "paused" in answer.status["loop"]["guards"]
        assert loop.ask(command="resume").taken
        assert not loop.ask(command="resume").taken


def test_set_changes_all_fields_or_none() -> None:
    with steered() as loop:
        answer = loop.ask(command="set", fields={"tau": "0.5", "max_executors": "0"})
        assert not answer.taken
        assert loop.state.policy == POLICY
        answer = loop.ask(command="set", fields={"tau": "0.5", "max_executors": "6"})
        assert answer.says == (
            "another policy, asked for by eve: max_executors 6 instead of 4, tau 0.5 instead of 0.2"
        )
        assert loop.state.policy.max_executors == 6


def test_status_shows_the_loop_and_is_not_logged() -> None:
    with steered() as loop:
        before = len(loop.loop.decisions)
        answer = loop.ask(command="status")
        assert answer.says.startswith("It acts, between 1 and 4 executors")
        assert set(answer.status) == {"at_ms", "loop", "executors", "queries", "change"}
        assert len(loop.loop.decisions) == before
        again = Answer.of(answer.line().encode())
        assert again.line() == answer.line()


def test_after_detach_nothing_is_taken() -> None:
    with steered() as loop:
        assert loop.ask(command="detach").taken
        assert loop.over.wait(60)
        last = loop.loop.of("detach")[-1]
        assert last.reason == "detached, asked for by eve; the queries run on as they are"
        for record in ({"command": "pause"}, {"command": "detach"}):
            assert not loop.ask(**record).taken
        assert loop.ask(command="status").says.startswith("It has let go")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "a command is not JSON"),
        (b"\xff\xfe", "a command is not JSON"),
        (b"[" * 5000, "a command is not JSON"),
        (b"{}", "command: None is not one"),
        (b'{"command": ["pause"]}', "is not one"),
        (b'{"command": "reboot"}', "'reboot' is not one; use status, scale"),
        (b'{"command": "scale"}', "scale takes executors with it"),
        (b'{"command": "scale", "executors": "4"}', "executors: "),
        (b'{"command": "scale", "executors": -1}', "executors: "),
        (b'{"command": "scale", "executors": true}', "executors: "),
        (b'{"command": "scale", "executors": 1e999}', "executors: "),
        (b'{"command": "pause", "for": 3}', "pause takes nothing with it"),
        (b'{"command": "set", "fields": {}}', "is not an object of texts by field"),
        (b'{"command": "set", "fields": {"tau": 0.3}}', "is not an object of texts by field"),
        (b'{"command": "set", "fields": {"tau": "x"}}', "tau: 'x' is not a number"),
        (b" " * (LONGEST + 1), f"a command has at most {LONGEST} bytes"),
    ],
)
def test_a_damaged_command_is_refused_logged_and_changes_nothing(text: bytes, why: str) -> None:
    with steered() as loop:
        answer = answered(loop, text, "eve")
        assert not answer.taken
        assert why in answer.says
        assert loop.state.policy == POLICY
        assert loop.state.pause is None
        assert loop.loop.of("refuse")[-1].reason == f"a command of eve is refused: {answer.says}"


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=4))
def test_whatever_belongs_to_a_command_it_is_answered(value: object) -> None:
    with steered() as loop:
        for name in COMMANDS:
            for member in ("executors", "fields"):
                record = {"command": name, member: value}
                answer = answered(loop, json.dumps(record).encode(), "eve")
                assert not answer.taken
                assert len(answer.says.splitlines()) == 1


def test_a_fault_of_our_own_is_answered_and_harms_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret")

    with steered() as loop:
        monkeypatch.setattr("elastream.control.commands.with_fields", broken)
        answer = loop.ask(command="set", fields={"tau": "1"})
        assert not answer.taken
        assert answer.says == "a fault of elastream itself: RuntimeError; see its log"
        assert loop.ask(command="pause").taken


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b'{"v": 2, "taken": true}', b"\xff", b"[" * 9])
def test_what_is_no_answer_is_said_so(line: bytes) -> None:
    with pytest.raises(Exception, match="the answer cannot be read"):
        Answer.of(line)
