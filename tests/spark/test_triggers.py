"""Names of Spark are written once: those of its triggers, and of its RocksDB state store."""

from __future__ import annotations

import inspect

import pytest
from tests.documentation import ROOT

from elastream.spark.internals.triggers import TRIGGERS, Trigger
from elastream.spark.internals.variants import ROCKSDB_PROVIDER

PYTHON = {path: path.read_text() for path in (ROOT / "src" / "elastream").rglob("*.py")}


def files_with(text: str) -> list[str]:
    return [path.name for path, source in PYTHON.items() if text in source]


def test_every_trigger_of_pyspark_has_its_kind() -> None:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    arguments = set(inspect.signature(DataStreamWriter.trigger).parameters) - {"self"}
    assert arguments <= {kind.argument for kind in TRIGGERS}


@pytest.mark.parametrize("kind", TRIGGERS, ids=lambda kind: kind.argument)
def test_the_class_of_a_trigger_is_named_once(kind: object) -> None:
    name = next(each.spark_class for each in TRIGGERS if each is kind)
    assert files_with(name) == ["triggers.py"]


def test_a_trigger_that_is_not_known_is_not_refused() -> None:
    assert Trigger(None).refusal is None


def test_the_class_of_the_rocksdb_state_store_is_named_once() -> None:
    assert files_with(ROCKSDB_PROVIDER.rpartition(".")[2]) == ["variants.py"]
