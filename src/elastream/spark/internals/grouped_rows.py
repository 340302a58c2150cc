"""Rows by group as the JVM has them, for a processor that is written in Java."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType


def grouped_rows(rows: DataFrame, group: StructType) -> Any:
    """Return the rows by the columns of ``group``, for ``transformWithState`` to be called on."""
    jvm: Any = rows.sparkSession.sparkContext._jvm
    key, given = row_encoder(jvm, group), row_encoder(jvm, rows.schema)
    return getattr(rows.groupBy(*group.names)._jgd, "as")(key, given)


def java_type(jvm: Any, schema: DataType) -> Any:
    """Return a type as the JVM has it."""
    return jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())


def row_encoder(jvm: Any, schema: StructType) -> Any:
    """Return what makes rows of these columns of Spark's own format, and back."""
    return jvm.org.apache.spark.sql.Encoders.row(java_type(jvm, schema))
