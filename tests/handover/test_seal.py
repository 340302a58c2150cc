from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.handover.messages import (
    Abort,
    Accept,
    Commit,
    Join,
    Leave,
    Message,
    Offer,
    Ready,
    Refuse,
    Seen,
    Taken,
    from_members,
    members_of,
)
from elastream.handover.model import Boundary, QueryShape, Window
from elastream.handover.seal import (
    Seal,
    WrongSealError,
    greeting,
    greeting_nonce,
    new_nonce,
    read_token,
)
from elastream.model.errors import ProblemError

BOUNDARY = Boundary(-2, 0, (7, 9), (0, 3))
SHAPE = QueryShape("q", Window.of("time", 4, 2), 2, "join", 5)
MESSAGES: list[Message] = [
    Join("h", SHAPE),
    Accept("h", "t"),
    Refuse("h", "busy"),
    Seen("h", "t", (7, -9)),
    Offer("h", "t", BOUNDARY),
    Offer("h", "t", replace(BOUNDARY, counts="/there/9")),
    Ready("h", "t", BOUNDARY),
    Commit("h", BOUNDARY),
    Abort("h", "t", "silent"),
    Taken("h"),
    Leave("h", "no rows"),
]
SEAL = Seal("a token that is long", "target", new_nonce(), new_nonce())


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_the_same_after_the_wire(message: Message) -> None:
    following, line = SEAL.line(message)
    assert SEAL.message(line) == (following, message)
    assert line.count(b"\n") == 1


@pytest.mark.parametrize(
    "other",
    [
        Seal("another token, as long", "target", SEAL.origin_nonce, SEAL.target_nonce),
        Seal(SEAL.token, "origin", SEAL.origin_nonce, SEAL.target_nonce),
        Seal(SEAL.token, "target", new_nonce(), SEAL.target_nonce),
        Seal(SEAL.token, "target", SEAL.origin_nonce, SEAL.target_nonce, lines=1),
    ],
    ids=["token", "direction", "connection", "played again"],
)
def test_a_line_sealed_for_anything_else_is_refused(other: Seal) -> None:
    _, line = SEAL.line(MESSAGES[0])
    with pytest.raises(WrongSealError, match="wrong token"):
        other.message(line)


def test_a_line_that_was_changed_is_refused() -> None:
    _, line = SEAL.line(Leave("h", "no rows"))
    with pytest.raises(WrongSealError):
        SEAL.message(line.replace(b"no rows", b"no luck"))


@given(st.binary(max_size=80))
@settings(max_examples=min(300, settings().max_examples))
def test_no_bytes_are_taken_for_a_message(line: bytes) -> None:
    with pytest.raises(WrongSealError):
        SEAL.message(line)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


@given(message=st.sampled_from(MESSAGES), data=st.data(), value=json_values)
@settings(max_examples=min(300, settings().max_examples))
def test_a_member_that_is_wrong_is_a_problem_and_no_fault_of_our_own(
    message: Message, data: st.DataObject, value: object
) -> None:
    members = json.loads(json.dumps(members_of(message)))
    place = members
    while True:
        name = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[name], dict) or data.draw(st.booleans()):
            break
        place = place[name]
    place[name] = value
    with contextlib.suppress(ProblemError):
        from_members(members)


def test_a_message_needs_all_its_members_and_no_others() -> None:
    with pytest.raises(ProblemError, match="handover: is missing"):
        from_members({"type": "taken"})
    with pytest.raises(ProblemError, match="hand: is not a member of taken"):
        from_members({"type": "taken", "handover": "h", "hand": 1})


def test_whoever_does_not_greet_as_we_do_is_not_the_origin() -> None:
    nonce = new_nonce()
    assert greeting_nonce(greeting(nonce)) == nonce
    with pytest.raises(ProblemError, match="does not speak this protocol"):
        greeting_nonce(b'{"nonce": "1"}')


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = read_token(path, create=True)
    assert read_token(path, create=True) == token
    assert path.stat().st_mode & 0o077 == 0


def test_a_token_that_is_missing_or_short_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="cannot be read"):
        read_token(tmp_path / "none")
    (tmp_path / "short").write_text("secret\n")
    with pytest.raises(ProblemError, match="fewer than 16"):
        read_token(tmp_path / "short")
