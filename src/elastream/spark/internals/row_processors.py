"""Rows by group through a processor that is written in Java (:mod:`.java_classes`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from elastream.spark.internals.java_classes import java_classes
from elastream.spark.internals.jvm_values import java_array

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def java_processor(spark: SparkSession, package: str, text: str, name: str, *arguments: Any) -> Any:
    """Return an object of the class in a Java text of ``package``, made by its only constructor.

    The arguments are numbers, schemas, lists of schemas, and lists of equally long lists of
    numbers.
    """
    gateway: Any = spark.sparkContext._gateway
    given = [_java_argument(gateway, each) for each in arguments]
    constructor = java_classes(spark, package, text).loadClass(name).getConstructors()[0]
    return constructor.newInstance(java_array(gateway, gateway.jvm.java.lang.Object, given))


def through_processor(
    rows: DataFrame,
    group: Sequence[str],
    processor: Any,
    output: StructType,
    *,
    event_time: bool = False,
    first: DataFrame | None = None,
) -> DataFrame:
    """Return what a processor makes of the rows of each group, in append mode.

    ``first`` is the state that groups begin with.
    """
    from pyspark.sql import DataFrame as SparkFrame

    jvm: Any = rows.sparkSession.sparkContext._jvm
    streaming = jvm.org.apache.spark.sql.streaming
    time = streaming.TimeMode.EventTime() if event_time else getattr(streaming.TimeMode, "None")()
    modes, encoder = (time, streaming.OutputMode.Append()), _encoder(jvm, output)
    grouped = _grouped(jvm, rows, group)
    if first is None:
        made = grouped.transformWithState(processor, *modes, encoder)
    else:
        begin, state = _grouped(jvm, first, group), _encoder(jvm, first.schema)
        made = grouped.transformWithState(processor, *modes, begin, encoder, state, encoder, state)
    return SparkFrame(made.toDF(), rows.sparkSession)


def _java_argument(gateway: Any, value: Any) -> Any:
    if isinstance(value, int):
        return value
    jvm = gateway.jvm
    if not isinstance(value, list):
        return _java_schema(jvm, value)
    if not isinstance(value[0], list):
        schemas = [_java_schema(jvm, each) for each in value]
        return java_array(gateway, jvm.org.apache.spark.sql.types.StructType, schemas)
    made = gateway.new_array(jvm.int, len(value), len(value[0]))
    for i, numbers in enumerate(value):
        for k, number in enumerate(numbers):
            made[i][k] = number
    return made


def _grouped(jvm: Any, rows: DataFrame, group: Sequence[str]) -> Any:
    key = rows.select(*group).schema
    return getattr(rows.groupBy(*group)._jgd, "as")(_encoder(jvm, key), _encoder(jvm, rows.schema))


def _encoder(jvm: Any, schema: StructType) -> Any:
    return jvm.org.apache.spark.sql.Encoders.row(_java_schema(jvm, schema))


def _java_schema(jvm: Any, schema: StructType) -> Any:
    return jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
