"""Keepers: what holds copies of state in the executors, and how to talk to it.

The keeper is Java, ``keeper.java`` with what the running Spark adds to it (:mod:`.variants`); it
says how it works. Its text travels with a task, and the executor compiles it.

Driver and keeper talk through the map of the state-store coordinator, which both reach without a
task: each writes its last message, a line of JSON, as the host of a store that does not exist,
under a run of its own. A message replaces the one before.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from elastream.spark.internals.java_text import generated_code
from elastream.spark.internals.spark_internals import ExecutorEntry, SparkInternals, missing_name

_SENDS: Final = ("transfer.java", "arrival.java")
_LOADS: Final = ("without_transfer.java",)
"""In the place of those that send state, where Spark lacks what they need."""

CopyState = Literal["waiting", "opening", "ready", "taken", "held", "failed"]
"""``taken``: the provider that Spark knows is this copy now. ``held``: the executor had one that
is as new."""


Source = tuple[str, str, int, str, int, str]
"""An offer, as its target needs it: its name, its executor's host, port and id, its version and
that one's checkpoint id."""


@dataclass(frozen=True, slots=True)
class KeeperCommand:
    """What the driver wants of one executor's keeper."""

    keep: Sequence[str]
    """Keys of the copies that shall be there."""
    take: Sequence[str]
    """Keys of those that shall be taken over now."""
    committed: Mapping[str, int]
    """The last committed batch of each run of a query."""
    alert: bool
    """Whether some will be taken over soon."""
    sources: Mapping[str, Source | None] = field(default_factory=dict)
    """Where copies come from, by key: ``None`` where they wait to be offered. What is not named
    comes from storage."""
    offers: Mapping[str, str] = field(default_factory=dict)
    """What it shall offer to other executors: the names of the offers, by key of the store."""


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """What became of one copy."""

    state: CopyState
    version: int
    """What it has come to; -1 where nothing is loaded."""
    bytes: int
    """What was loaded from storage to open it."""
    sent: int
    """What was fetched from the executor that owns the state."""
    took_ms: int
    """How long that took, with opening it."""
    why: str
    """What went wrong, where something did."""
    not_sent: str
    """Why it did not come from the owner, where it should have."""


@dataclass(frozen=True, slots=True)
class OfferStatus:
    """What became of the offer of one store."""

    name: str
    state: Literal["waiting", "offered", "refused"]
    version: int
    checkpoint_id: str
    """Of that version; ``null`` in checkpoint format 1."""
    bytes: int
    held_ms: int
    """For how long no task could have the store."""
    why: str
    """Why it is refused."""


@dataclass(frozen=True, slots=True)
class KeeperReport:
    """The last message of a keeper."""

    number: int
    """The number of the driver's message that it had read."""
    copies: Mapping[str, CopyStatus]
    offers: Mapping[str, OfferStatus]


class Keepers:
    """The keepers of one attachment, one for each executor that is sent an order."""

    lease_s: float = 60.0
    """A keeper that receives nothing for this long drops all it has, and ends."""

    def __init__(self, internals: SparkInternals) -> None:
        self._internals = internals
        self._mailbox = str(uuid.uuid4())
        self.number = 0
        """Of the last message that was written."""
        self._code: Any = None

    def missing_name(self) -> str | None:
        """Return a private name that this Spark lacks; ``None`` where all are there."""
        return self._first_missing(self._internals.variant.copy_methods)

    def why_not_sent(self) -> str | None:
        """Return why no executor can send state to another; ``None`` where they can."""
        methods = self._internals.variant.send_methods
        if methods is None:
            return "this Spark loads state from storage alone"
        missing = self._first_missing(methods)
        return None if missing is None else f"this Spark lacks {missing}"

    def texts(self) -> tuple[str, ...]:
        """Return the names of the texts that make a keeper of this Spark."""
        return (*self._internals.variant.keeper, *(_LOADS if self.why_not_sent() else _SENDS))

    def _first_missing(self, methods: Mapping[str, tuple[str, ...]]) -> str | None:
        missing = (missing_name(self._internals.jvm, *each) for each in methods.items())
        return next((each for each in missing if each is not None), None)

    def deliver(self, executor: ExecutorEntry, orders: Sequence[Sequence[Any]]) -> str:
        """Send orders for copies to an executor, by a task; return what went wrong, or nothing.

        The driver's message that wants them must have been written before. Where nothing is
        returned, a keeper that had not ended has taken them.
        """
        internals = self._internals
        if self._code is None:
            self._code = generated_code(internals.jvm, *self.texts())
        packed = [internals.java_objects(order) for order in orders]
        lease_ms = round(1000 * self.lease_s)
        references = [executor.id, self._mailbox, executor.host, self.number, lease_ms, *packed]
        return run_on(internals, executor, self._code, references)

    def write(self, executor: str, command: KeeperCommand) -> None:
        """Send an executor's keeper what is wanted from now on."""
        self.number += 1
        text = {"number": self.number, **asdict(command)}
        self._internals.coordinator.reportActiveInstance(
            self._mail(f"to {executor}"), json.dumps(text), executor, self._internals.seq(())
        )

    def read(self, executor: str) -> KeeperReport | None:
        """Return the last message of an executor's keeper; ``None`` where there is none yet."""
        found = self._internals.coordinator.getLocation(self._mail(f"from {executor}"))
        if found.isEmpty():
            return None
        text = str(found.get())
        message = json.loads(text[text.index("{") : text.rindex("}") + 1])
        copies = {key: CopyStatus(*status) for key, status in message["copies"].items()}
        offers = {key: OfferStatus(*status) for key, status in message["offers"].items()}
        return KeeperReport(message["number"], copies, offers)

    def close(self) -> None:
        """Take the mailbox away: every keeper drops what it has, and ends."""
        run = self._internals.jvm.java.util.UUID.fromString(self._mailbox)
        self._internals.coordinator.deactivateInstances(run)

    def _mail(self, name: str) -> Any:
        state = self._internals.jvm.org.apache.spark.sql.execution.streaming.state
        run = self._internals.jvm.java.util.UUID.fromString(self._mailbox)
        return state.StateStoreProviderId(state.StateStoreId("elastream", 0, 0, name), run)


def run_on(
    internals: SparkInternals,
    executor: ExecutorEntry,
    code: Any,
    references: Sequence[Any],
    *,
    tasks: int = 1,
) -> str:
    """Run generated code as tasks that prefer an executor; return the first one's only text."""
    jvm, sql = internals.jvm, internals.jvm.org.apache.spark.sql
    metric = sql.execution.metric.SQLMetrics.createMetric(internals.context, "elastream")
    factory = sql.execution.WholeStageCodegenEvaluatorFactory(
        jvm.scala.util.Right(code), metric, internals.java_objects(references)
    )
    anything = internals.class_tag("java.lang.Object")
    places = internals.scala_map(dict.fromkeys(range(tasks), internals.preferring(executor)))
    rows = jvm.org.apache.spark.rdd.ParallelCollectionRDD(
        internals.context, internals.seq(range(tasks)), tasks, places, anything
    )
    answers = rows.mapPartitionsWithEvaluator(factory, anything).toJavaRDD().collect()
    return str(answers.get(0).getUTF8String(0).toString())
