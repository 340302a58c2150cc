"""Handovers on Spark over generated windows and streams; a few in every run, dozens if slow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.handover.generated import check_generated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOZENS = 48
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("seed", [3, pytest.param(0, marks=pytest.mark.slow)])
def test_generated_windows_are_put_out_once_by_both_together(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    check_generated(spark, seed, tmp_path)


@pytest.mark.slow
@pytest.mark.spark
def test_dozens_of_generated_windows_are_put_out_once_by_both_together() -> None:
    command = [sys.executable, "-m", "tests.spark.handover.generated", str(DOZENS)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-4000:]
    assert len(run.stdout.splitlines()) == DOZENS
