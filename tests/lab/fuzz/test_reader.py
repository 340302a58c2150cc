"""A process that reads damaged inputs: whatever one of them does to it, the next is read."""

from __future__ import annotations

import itertools
import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from elastream_lab.fuzz.reader import Reader, Work


def _prepare() -> None:
    pass


def _read(kind: str, seed: str) -> tuple[bytes, str | None]:
    """Do to this process what a planner might do to it, in compiled code."""
    if kind == "never ends":
        sum(itertools.repeat(1))
    elif kind == "waits":
        time.sleep(3600)
    elif kind == "aborts":
        os.abort()
    elif kind == "takes all memory":
        try:
            bytearray(8 << 30)
        except MemoryError:
            return b"", "MemoryError"
    return seed.encode(), None


_WORK = Work(_prepare, _read, cpu_s=1.0)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("never ends", "its process ended: more than 1 s of CPU"),
        ("aborts", "its process ended: signal 6"),
        ("takes all memory", "MemoryError"),
    ],
)
def test_an_input_that_breaks_a_bound_is_a_finding(tmp_path: Path, kind: str, wrong: str) -> None:
    with closing(Reader(tmp_path, _WORK)) as reader:
        found = [reader.read("good", "1"), reader.read(kind, "2"), reader.read("good", "3")]
    assert found == [(b"1", None), (b"", wrong), (b"3", None)]


def test_an_input_that_waits_for_ever_is_a_finding(tmp_path: Path) -> None:
    with closing(Reader(tmp_path, _WORK, wait_s=0.5)) as reader:
        assert reader.read("waits", "1") == (b"", "it waited for more than 0.5 s")
