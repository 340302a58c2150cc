from __future__ import annotations

from pathlib import Path

import pytest

from elastream.cli.main import main

KNOWN = "tests.cli.test_handover:no_query"


def no_query() -> str:
    return "a text"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["serve", "sums"], "QUERY: 'sums' is not module:function"),
        (["serve", "no.such:sums"], "QUERY: 'no.such:sums' cannot be found: No module named"),
        (["serve", "json:sums"], "QUERY: 'json:sums' cannot be found"),
        (["serve", KNOWN], f"QUERY: '{KNOWN}' gives 'a text', not a WindowedQuery"),
        (["join", "sums", "here:1", "--token-file", "x"], "QUERY: 'sums' is not module:function"),
        (["join", "json:sums"], "Missing argument"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(
    arguments: list[str],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["handover", *arguments]) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
