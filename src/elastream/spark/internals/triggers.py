"""The triggers of Structured Streaming, and which of them leave batches to steer between.

A new trigger of Spark gets its line in ``TRIGGERS``; nothing else knows them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class TriggerKind:
    """One kind of trigger, with its names in Spark and in PySpark."""

    argument: str
    """The argument of PySpark's ``DataStreamWriter.trigger``."""
    spark_class: str
    refusal: str | None = None
    """What a query with it does and what to use instead; ``None`` where it can be steered."""
    interval: str | None = None
    """The method that returns how often its batches begin, in ms; ``None``: there is no such."""


TRIGGERS: Final = (
    TriggerKind("processingTime", "ProcessingTimeTrigger", interval="intervalMs"),
    TriggerKind("once", "OneTimeTrigger$"),
    TriggerKind("availableNow", "AvailableNowTrigger$"),
    TriggerKind(
        "continuous",
        "ContinuousTrigger",
        "runs continuously, without batches to move state between; use processingTime",
    ),
    TriggerKind("realTime", "RealTimeTrigger", interval="batchDurationMs"),
)
"""Every trigger that Spark 4.0 to 4.3 have."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a query's batches begin."""

    kind: TriggerKind | None
    """``None`` for one that is not known; its queries are steered like any other."""
    interval_ms: float | None = None
    """How often they begin; ``None``: as soon as the one before has ended, or there are none."""

    @property
    def realtime(self) -> bool:
        """Whether its batches run all stages at once, for as long as the interval."""
        return self.kind is not None and self.kind.argument == "realTime"

    @property
    def refusal(self) -> str | None:
        """Why a query with it cannot be steered; ``None`` where it can."""
        return None if self.kind is None else self.kind.refusal


def trigger_of_argument(argument: str) -> TriggerKind | None:
    """Return the kind that an argument of PySpark's ``trigger`` stands for."""
    return next((kind for kind in TRIGGERS if kind.argument == argument), None)


def trigger_of_class(simple_name: str) -> TriggerKind | None:
    """Return the kind of a trigger in the JVM."""
    return next((kind for kind in TRIGGERS if kind.spark_class == simple_name), None)


def is_realtime(query: StreamingQuery) -> bool:
    """Return whether one of PySpark's queries is in Real-time Mode."""
    trigger = query._jsq.streamingQuery().trigger()
    return Trigger(trigger_of_class(str(trigger.getClass().getSimpleName()))).realtime
