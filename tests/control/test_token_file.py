"""The token of a door that others can reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastream import ProblemError
from elastream.control.token_file import token_in


def test_a_token_is_made_where_there_is_none_and_only_its_user_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = token_in(path, field="page_token", make=True)
    assert len(token) >= 43
    assert path.stat().st_mode & 0o777 == 0o600
    assert token_in(path, field="page_token", make=True) == token


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("a token of others\n", 0o644, "can be read by others"),
        ("a-token-that-a-group-reads\n", 0o640, "can be read by others"),
        ("short\n", 0o600, "holds no token"),
        ("two words of enough length\n", 0o600, "holds no token"),
        ("", 0o600, "holds no token"),
        ("ü" * 20, 0o600, "a line of ASCII"),
    ],
)
def test_what_is_no_private_token_is_refused(
    tmp_path: Path, text: str, mode: int, why: str
) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(ProblemError, match=why):
        token_in(path, field="page_token")


def test_a_missing_token_is_refused_where_none_shall_be_made(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"token_file: .* cannot be used: No such file"):
        token_in(tmp_path / "none", field="token_file")
