"""The comparison with CP-SAT, where OR-tools is not installed."""

from __future__ import annotations

import sys

import pytest

from elastream_lab.benchmarks import __main__ as benchmarks


def test_without_ortools_one_line_says_so_and_the_other_benchmarks_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ortools", None)
    assert benchmarks.main(["cp_sat"]) == 0
    said = capsys.readouterr().out
    assert said == "cp_sat: needs ortools, which is not a dependency: pip install ortools\n"
