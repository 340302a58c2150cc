"""Whether a declared query can be handed over, checked before it starts.

A handover needs windows: state that is over at some time, results that say to which window they
belong, and inputs that another application can read for itself. Spark itself refuses aggregations
without a watermark when the query starts.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from elastream.handover.model import Start
from elastream.handover.spark.numbered_rows import TIME
from elastream.handover.spark.windowed import COORDINATE, WindowedQuery
from elastream.model.checks import abbreviate
from elastream.model.errors import ElastreamError, ProblemError
from elastream.spark.internals.plan_texts import analyzed_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_DEDUPLICATE: Final = re.compile(r"\bDeduplicate \[([^]]*)\]")
_WITH_TIME: Final = re.compile(r"#\d+-T\d+ms")
"""How Spark spells a column that has a watermark."""
_WHOLE: Final = frozenset(("byte", "short", "integer", "long"))


def expect_declared(query: object) -> None:
    """Refuse what is not a declared query."""
    if isinstance(query, WindowedQuery):
        return
    why = f"{abbreviate(query)} is not a WindowedQuery"
    if hasattr(query, "runId"):
        why = (
            "a query that runs already writes without asking who owns a window: declare it as a "
            "WindowedQuery, and let that be started here"
        )
    raise ProblemError("query", why)


def expect_handable(query: WindowedQuery, spark: SparkSession) -> None:
    """Refuse a declared query that cannot be handed over, with the reason."""
    from pyspark.errors import PySparkException

    field = f"query {query.shape.name!r}"
    try:
        inputs = query.streams(spark, Start.now(time.time_ns() // 1_000_000))
        for number, rows in enumerate(inputs):
            _expect_stream(f"{field}, input {number}", rows)
        frame = query.frame(spark)
        if query.rows is None:
            _expect_results(field, frame)
        for keys in _DEDUPLICATE.findall(analyzed_plan(frame)):
            if not _WITH_TIME.search(keys):
                why = "deduplicates without a time among its keys: its state is never over"
                raise ProblemError(field, why)
    except ElastreamError:
        raise
    except PySparkException as error:
        raise ProblemError(field, str(error).strip().splitlines()[0]) from None
    except Exception as error:  # a function of the user's
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ProblemError(field, f"{type(error).__name__}: {why}") from error


def _expect_stream(field: str, rows: DataFrame) -> None:
    if not rows.isStreaming:
        raise ProblemError(field, "is not a stream")
    types = {each.name: each.dataType.typeName() for each in rows.schema.fields}
    if TIME not in types:
        raise ProblemError(field, f"has no column {TIME!r}, the time of a row")
    if not types[TIME].startswith("timestamp"):
        raise ProblemError(field, f"{TIME!r} is of type {types[TIME]}, not a timestamp")


def _expect_results(field: str, results: DataFrame) -> None:
    types = {each.name: each.dataType.typeName() for each in results.schema.fields}
    if COORDINATE not in types:
        why = f"results have no column {COORDINATE!r}, the start of their window in milliseconds"
        raise ProblemError(field, why)
    if types[COORDINATE] not in _WHOLE:
        why = f"{COORDINATE!r} is of type {types[COORDINATE]}, not a whole number of milliseconds"
        raise ProblemError(field, why)
