"""A folder that driver and executors share, and folders that they only seem to share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from elastream.model.errors import SparkError
from elastream.spark.internals.reach import check_reach
from elastream.spark.internals.spark_internals import SparkInternals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_folder_that_all_share_is_left_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    internals = SparkInternals.of(spark)
    (tmp_path / "there").mkdir()
    check_reach(internals, internals.executors(), str(tmp_path / "there"))
    check_reach(internals, internals.executors(), (tmp_path / "not" / "yet").as_uri())
    assert [file.name for file in tmp_path.rglob("*")] == ["there"]


def test_a_folder_in_which_the_driver_cannot_write_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    internals = SparkInternals.of(spark)
    (tmp_path / "file").write_text("no folder\n")
    for folder in (str(tmp_path / "file" / "below"), "nowhere://host/folder"):
        with pytest.raises(SparkError, match=r"^the driver cannot write to ") as raised:
            check_reach(internals, internals.executors(), folder)
        assert len(str(raised.value).splitlines()) == 1
    assert [file.name for file in tmp_path.rglob("*")] == ["file"]


def test_a_path_that_is_another_folder_for_each_process_is_refused(spark: SparkSession) -> None:
    internals = SparkInternals.of(spark)
    here = "/proc/self/cwd"  # as a local disk is on machines of their own
    if not Path(here).exists():
        pytest.skip("needs /proc")
    with pytest.raises(SparkError, match=r"^executor \d+ on \S+ cannot read what the driver wrote"):
        check_reach(internals, internals.executors(), here)
