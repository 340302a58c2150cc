from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from elastream.foresight.mtm.growth import GrowthSettings
from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem
from elastream.foresight.mtm.values import PartitionValues, partition_values
from elastream.foresight.spark_runner import SparkRunner
from elastream.foresight.values_file import read_values, write_values
from elastream.model.errors import ProblemError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POOLED = GrowthSettings(most_listed=0, pool=60, parents=8, rounds=2)


def problem_of(seed: int = 1, *, directed: bool = False) -> ProjectionProblem:
    random = np.random.default_rng(seed)
    sizes = [3, 4, 5, 6]
    matrix = random.random((4, 4))
    ways = ["down", "up", "down", "up"] if directed else None
    chain = MigrationChain.of(sizes, matrix / matrix.sum(axis=1, keepdims=True), 0.8, ways)
    work, state = random.integers(5, 30, (2, 10)).tolist()
    return ProjectionProblem.of(work, [size + 0.5 for size in state], 0.6, chain)


def valued(problem: ProjectionProblem) -> PartitionValues:
    values = partition_values(problem, settings=POOLED)
    assert isinstance(values, PartitionValues)
    return values


def same(one: PartitionValues, other: PartitionValues) -> bool:
    return (
        one.problem == other.problem
        and one.complete == other.complete
        and np.array_equal(one.values, other.values)
        and [one.members.cut(i) for i in range(len(one.members))]
        == [other.members.cut(i) for i in range(len(other.members))]
    )


def test_spark_computes_what_one_process_computes(spark: SparkSession) -> None:
    problem = problem_of()
    on_spark = partition_values(problem, settings=POOLED, runner=SparkRunner(spark.sparkContext))
    assert isinstance(on_spark, PartitionValues)
    assert same(on_spark, valued(problem))


@pytest.mark.slow
def test_all_partitions_are_valued_on_spark_as_in_one_process(spark: SparkSession) -> None:
    problem, every = problem_of(), GrowthSettings(most_listed=10_000)
    on_spark = partition_values(problem, settings=every, runner=SparkRunner(spark.sparkContext))
    here = partition_values(problem, settings=every)
    assert isinstance(on_spark, PartitionValues)
    assert isinstance(here, PartitionValues)
    assert on_spark.complete
    assert same(on_spark, here)


@pytest.mark.parametrize("directed", [False, True])
def test_stored_values_are_read_as_they_were_written(tmp_path: Path, directed: bool) -> None:
    values = valued(problem_of(directed=directed))
    write_values(tmp_path / "values.parquet", values)
    assert same(read_values(tmp_path / "values.parquet"), values)
    assert [path.name for path in tmp_path.iterdir()] == ["values.parquet"]


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "values.parquet"
    values = valued(problem_of())
    write_values(path, values)
    before = path.read_bytes()

    def killed(_table: object, name: str) -> None:
        Path(name).write_bytes(before[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr(parquet, "write_table", killed)
    with pytest.raises(KeyboardInterrupt):
        write_values(path, values)
    assert path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["values.parquet"]


def test_files_that_are_no_values_are_refused(tmp_path: Path) -> None:
    torn, other = tmp_path / "torn.parquet", tmp_path / "other.parquet"
    write_values(torn, valued(problem_of()))
    torn.write_bytes(torn.read_bytes()[:-20])
    parquet.write_table(pa.table({"bounds": [[0, 1]]}), other)
    for path, line in ((torn, "cannot be read"), (other, "holds no values of partitions")):
        with pytest.raises(ProblemError, match=line):
            read_values(path)
