from __future__ import annotations

import io
import sys

import pytest

from elastream.foresight.commands.progress import progress


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_shown_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    with progress("planning", 4) as tell:
        tell(1)
        tell(2, "halfway")
    assert "halfway" in screen.getvalue()
    assert "50%" in screen.getvalue()


def test_a_file_is_not_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    with progress("planning", 2) as tell:
        tell(2, "done")
    assert file.getvalue() == ""
