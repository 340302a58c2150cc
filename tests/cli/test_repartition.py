"""What ``elastream repartition`` refuses, before anything is started or written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Refusal

from elastream.cli.repartition import repartition

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture
def refused(refusing: Callable[..., Refusal]) -> Refusal:
    return refusing(repartition, "elastream.spark.sessions.batch_session.batch_session")


def checkpoint(
    folder: Path, *, provider: str = ROCKSDB, operator: str = "stateStoreSave", found: int = 4
) -> Path:
    """Files as Spark writes them: a query of four partitions, of which this many have state."""
    conf = {
        "spark.sql.streaming.stateStore.providerClass": provider,
        "spark.sql.shuffle.partitions": "4",
    }
    for name, text in (
        ("offsets/0", f'v1\n{json.dumps({"batchWatermarkMs": 0, "conf": conf})}\n{{"offset":1}}'),
        ("commits/0", 'v1\n{"nextBatchWatermarkMs":0}'),
        (
            "state/0/_metadata/metadata",
            f"v1\n{json.dumps({'operatorInfo': {'operatorId': 0, 'operatorName': operator}})}",
        ),
        *((f"state/0/{number}/1.zip", "") for number in range(found)),
    ):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def test_what_is_no_checkpoint_is_refused(refused: Refusal, tmp_path: Path) -> None:
    assert "is not there, or is empty" in refused(tmp_path / "none", 8)
    assert "is not there, or is empty" in refused(tmp_path, 8)
    (tmp_path / "data").write_text("x")
    assert "is not the checkpoint of a streaming query" in refused(tmp_path, 8)
    (tmp_path / "offsets").mkdir()
    assert "no batch of its query has been committed" in refused(tmp_path, 8)


def test_a_checkpoint_without_state_is_refused(refused: Refusal, tmp_path: Path) -> None:
    made = checkpoint(tmp_path)
    made.joinpath("state").rename(tmp_path / "elsewhere")
    assert "its query is stateless" in refused(made, 8)


def test_a_broken_checkpoint_is_refused(refused: Refusal, tmp_path: Path) -> None:
    made = checkpoint(tmp_path)
    (made / "offsets/0").write_text("v1\nnonsense")
    assert "a file of the checkpoint cannot be read" in refused(made, 8)
    (made / "offsets/0").write_text('v1\n{"conf":{}}')
    assert "does not say how many partitions there are" in refused(made, 8)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ({"provider": "a.b.HDFSBackedStateStoreProvider"}, "its state store is HDFSBacked"),
        ({"operator": "globalLimit"}, "the keys of globalLimit are not known from their state"),
        ({"found": 1}, "it has no key, so it cannot be split"),
    ],
)
def test_what_spark_would_begin_and_not_end_is_refused(
    refused: Refusal, tmp_path: Path, made: dict[str, object], says: str
) -> None:
    assert says in refused(checkpoint(tmp_path, **made), 8)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("partitions", "says"),
    [(0, "partitions: "), (100_001, "partitions: "), (4, "has 4 partitions already")],
)
def test_a_number_that_makes_no_sense_is_refused(
    refused: Refusal, tmp_path: Path, partitions: int, says: str
) -> None:
    assert says in refused(checkpoint(tmp_path), partitions)


def test_a_batch_that_was_cut_is_refused_and_a_repartitioning_must_be_ended(
    refused: Refusal, tmp_path: Path
) -> None:
    made = checkpoint(tmp_path)
    text = (made / "offsets/0").read_text()
    (made / "offsets/1").write_text(text)
    assert "batch 1 was begun and not committed" in refused(made, 8)
    (made / "offsets/1").write_text(text.replace('"4"', '"6"'))
    assert "a repartitioning to 6 was begun and not ended; ask for 6 first" in refused(made, 8)


def test_an_earlier_spark_is_refused(
    refused: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.delattr(SparkSession, "_streamingCheckpointManager")
    assert "can be changed on Spark 4.2 and later; this is" in refused(checkpoint(tmp_path), 8)
