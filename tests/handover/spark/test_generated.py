"""Handovers on Spark over generated windows and streams; test_windowed.py has some in every run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.handover.spark.generated import check_generated
from tests.handover.spark.generated_chains import KINDS, generated_chain
from tests.handover.spark.generated_rows import generated_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

DOZENS = 48
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("seed", [0, 3])
def test_generated_windows_are_put_out_once_by_both_together(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    check_generated(spark, seed, tmp_path)


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_generated_chains_are_put_out_once_by_both_together(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    check_generated(spark, seed, tmp_path, generated_chain)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_generated_windows_of_rows_are_put_out_once_by_both_together(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    check_generated(spark, seed, tmp_path, generated_rows)


@pytest.mark.spark
@pytest.mark.parametrize("module", ["generated", "generated_chains", "generated_rows"])
def test_dozens_of_generated_queries_are_put_out_once_by_both_together(module: str) -> None:
    command = [sys.executable, "-m", f"tests.handover.spark.{module}", str(DOZENS)]
    paths = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    run = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-4000:]
    assert len(run.stdout.splitlines()) == DOZENS
