from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from elastream.cli.quiet import line_of_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_what_spark_refused_can_be_reported_when_its_session_has_ended(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import SparkContext
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as raised:
        spark.table("nowhere")
    monkeypatch.setattr(SparkContext, "_jvm", None)
    line = line_of_failure(raised.value)
    assert "nowhere" in line
    assert len(line.splitlines()) == 1
