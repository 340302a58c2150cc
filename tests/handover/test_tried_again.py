"""Live handovers are tried again where a Python worker could not connect in time, only there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.handover.spark.conftest import NOT_CONNECTED, pytest_pyfunc_call


def item(test: Any, folder: Path) -> Any:
    return SimpleNamespace(
        obj=test, funcargs={"tmp_path": folder}, _fixtureinfo=SimpleNamespace(argnames=["tmp_path"])
    )


def test_a_worker_that_did_not_connect_costs_another_try_in_an_empty_folder(
    tmp_path: Path,
) -> None:
    seen: list[int] = []

    def handed_over(tmp_path: Path) -> None:
        seen.append(len(list(tmp_path.iterdir())))
        (tmp_path / "origin").mkdir()
        if len(seen) == 1:
            raise ValueError("ended") from OSError(f"{NOT_CONNECTED}.")

    assert pytest_pyfunc_call(item(handed_over, tmp_path))
    assert seen == [0, 0]


def test_any_other_failure_is_one(tmp_path: Path) -> None:
    seen: list[int] = []

    def handed_over(tmp_path: Path) -> None:
        seen.append(1)
        assert not tmp_path, "doubled"

    with pytest.raises(AssertionError, match="doubled"):
        pytest_pyfunc_call(item(handed_over, tmp_path))
    assert len(seen) == 1
