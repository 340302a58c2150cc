"""A query goes to another Spark, with other partitions, in a later version of itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.components.sparks import DELTA_SPARK, environment
from tests.handover.spark.applications import ROOT, Applications, Spark
from tests.handover.spark.expected import sums
from tests.handover.spark.handed_queries import CLOCK, readings
from tests.handover.spark.handing import ALL_MS

OWN = "own"
"""The Spark of the tests."""
DELTA = "delta's"
"""The one next to it, made for Delta's connector."""

ROUTES = [(OWN, DELTA), ("4.0", OWN), (OWN, "4.0")]

Row = tuple[Any, ...]


def spark(name: str) -> Spark:
    """Return a Spark by name: one of those here, or that of ``make test-versions``."""
    if name == OWN:
        return Spark()
    if name == DELTA:
        python, there = sys.executable, DELTA_SPARK / "pyspark"
        found = Spark(python, environment(DELTA_SPARK))
    else:
        there = ROOT / ".versions" / name / "bin" / "python"
        found = Spark(str(there))
    if not there.exists():
        pytest.skip(f"the Spark called {name} is not here")
    return found


def version(name: str) -> str:
    """Return the version that this Spark says it has."""
    on = spark(name)
    reports = [on.python, "-c", "import pyspark; print(pyspark.__version__)"]
    return subprocess.check_output(reports, env=dict(on.environment) or None, text=True).strip()


@pytest.mark.parametrize(
    ("before", "after"), ROUTES, ids=[f"{before} to {after}" for before, after in ROUTES]
)
def test_a_query_goes_to_another_spark_with_other_partitions_and_a_later_version_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    """Each of the three is what its checkpoint could not follow."""
    monkeypatch.setenv(CLOCK, str(tmp_path / "clock"))
    run = Applications(tmp_path, "sums")
    versions = version(before), version(after)
    assert versions[0] != versions[1]
    try:
        origin = run.serve(patience_s=120, on=spark(before))
        run.await_until(lambda: bool(run.put_out("origin")))
        run.join(query="changed_sums", on=spark(after))
        run.await_until(lambda: "finish" in run.kinds("origin"))
        run.pace.go(ALL_MS)
        expected = sums(readings(), 3000, 1000)

        def together() -> Counter[Row]:
            taken = Counter(row[:4] for row in run.put_out("target").elements())
            return run.put_out("origin") + taken

        run.await_until(lambda: together() >= expected.sure)
        assert together() <= expected.possible
        assert {len(row) for row in run.put_out("origin")} == {4}
        assert {len(row) for row in run.put_out("target")} == {5}
        assert origin.wait(300) == 0
    finally:
        run.close()
    for side, each in sides(versions):
        assert f"Spark {each} on " in run.said(side)
    assert [partitions(tmp_path / side) for side in ("origin", "target")] == [2, 3]


def test_the_checkpoint_of_a_query_does_not_follow_a_changed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same change of the query, on the checkpoint instead of by a handover."""
    monkeypatch.setenv(CLOCK, str(tmp_path / "clock"))
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after):
        folder.mkdir()
    run = Applications(before, "sums")
    try:
        run.serve()
        run.await_until(lambda: bool(run.put_out("origin")))
    finally:
        run.close()
    shutil.copytree(before / "origin" / "checkpoint", after / "origin" / "checkpoint")
    changed = Applications(after, "changed_sums")
    try:
        origin = changed.serve()
        changed.await_until(lambda: origin.poll() is not None)
        assert origin.returncode == 2
        assert "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE" in changed.said("serve")
    finally:
        changed.close()


def sides(versions: tuple[str, str]) -> list[tuple[str, str]]:
    return list(zip(("serve", "join"), versions, strict=True))


def partitions(folder: Path) -> int:
    return len(list((folder / "checkpoint" / "state" / "0").glob("[0-9]*")))
