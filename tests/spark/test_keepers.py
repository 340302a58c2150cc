"""Deliveries and keepers in the JVM of the driver, whose threads a test can hold up."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.running_query import until
from tests.spark.stores import Stores

from elastream.spark.internals.java_text import generated_code
from elastream.spark.internals.keepers import Keepers
from elastream.spark.internals.spark_internals import SparkInternals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATER = 1_000_000
"""The number of a word of the driver's that is never written: what is ordered with it is kept."""
LEASE_MS = 3_600_000


class Host:
    """Takes deliveries of one mailbox as an executor does."""

    def __init__(self, spark: SparkSession) -> None:
        self._internals = SparkInternals.of(spark)
        self.jvm = self._internals.jvm
        self.mailbox = str(uuid.uuid4())
        self._inbox = self._mail("to driver")
        nothing = self._internals.seq(())
        word = '{"number": 0, "alert": true, "committed": {}, "keep": [], "take": [], '
        word += '"sources": {}, "offers": {}}'
        self._internals.coordinator.reportActiveInstance(self._inbox, word, "driver", nothing)

    def texts(self) -> tuple[str, ...]:
        """Return the texts that keepers are made of here."""
        return Keepers(self._internals).texts()

    def deliver(self, *keys: str, classes: int = 0, lease_ms: int = LEASE_MS) -> None:
        """Order copies of stores that never commit, by one of several sets of classes."""
        orders = [self._internals.java_objects([key, self._mail(key)]) for key in keys]
        references = self._internals.java_objects(
            ["driver", self.mailbox, "localhost", LATER, lease_ms, *orders]
        )
        text = generated_code(self.jvm, *self.texts())
        code = self.jvm.org.apache.spark.sql.catalyst.expressions.codegen
        text = code.CodeAndComment(f"{text.body()}\n// {classes}\n", text.comment())
        compiled = code.CodeGenerator.compile(text)._1()
        delivery = self._call(compiled, "generate", self._internals.java_objects([references]))
        assert delivery.hasNext()
        assert delivery.next().getUTF8String(0).toString() == ""

    def keepers(self) -> list[Any]:
        """Return the keepers of the mailbox that are there, those that are ending too."""
        threads = self.jvm.java.lang.Thread.getAllStackTraces().keySet()
        name = f"elastream copies {self.mailbox}"
        return [thread for thread in threads if thread.getName() == name]

    def copies(self, keeper: Any) -> dict[str, Any]:
        """Return what a keeper has, by key."""
        return dict(self._field(keeper, "copies"))

    def end(self, keeper: Any) -> None:
        """Let a keeper end, as one whose driver is silent does."""
        field = keeper.getClass().getDeclaredField("ended")
        field.setAccessible(True)
        field.setBoolean(keeper, True)

    def replace(self, keeper: Any, store: Any, provider: Any) -> None:
        """Leave a keeper a provider to close, as one whose place a copy has taken."""
        self._field(keeper, "replaced").add(self._internals.java_objects([store, provider]))

    def has_ended(self, keeper: Any) -> bool:
        return bool(self._field(keeper, "ended"))

    @contextmanager
    def held_up(self, copy: Any) -> Iterator[None]:
        """Keep whoever drops a copy waiting."""
        lock = self._field(copy, "lock")
        lock.lock()
        try:
            yield
        finally:
            lock.unlock()

    def close(self) -> None:
        """Take the mailbox away, which ends every keeper."""
        self._internals.coordinator.deactivateInstances(
            self.jvm.java.util.UUID.fromString(self.mailbox)
        )
        until(lambda: not self.keepers(), "all keepers have ended")

    def _mail(self, name: str) -> Any:
        state = self.jvm.org.apache.spark.sql.execution.streaming.state
        run = self.jvm.java.util.UUID.fromString(self.mailbox)
        return state.StateStoreProviderId(state.StateStoreId("elastream", 0, 0, name), run)

    def _field(self, target: Any, name: str) -> Any:
        field = target.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return field.get(target)

    def _call(self, target: Any, name: str, arguments: Any) -> Any:
        methods = target.getClass().getMethods()
        method = next(each for each in methods if each.getName() == name)
        return method.invoke(target, arguments)


@pytest.fixture
def host(spark: SparkSession) -> Iterator[Host]:
    made = Host(spark)
    yield made
    made.close()


def test_all_deliveries_of_a_mailbox_go_to_one_keeper_whatever_classes_they_come_with(
    host: Host,
) -> None:
    host.deliver("a")
    host.deliver("b", "c", classes=1)
    (keeper,) = host.keepers()
    assert host.copies(keeper).keys() == {"a", "b", "c"}


def test_a_keeper_that_ends_takes_no_orders_and_another_one_does(host: Host) -> None:
    host.deliver("a")
    (first,) = host.keepers()
    with host.held_up(host.copies(first)["a"]):
        host.end(first)  # it goes on dropping its copies, for as long as it is held up
        host.deliver("a", "b")
        second = next(each for each in host.keepers() if not each.equals(first))
        assert first.isAlive()
        assert host.copies(second).keys() == {"a", "b"}
        assert not host.has_ended(second)
    until(lambda: not first.isAlive(), "the first keeper has dropped its copies")
    assert host.copies(second).keys() == {"a", "b"}


def test_a_keeper_that_receives_nothing_for_its_lease_ends(host: Host) -> None:
    host.deliver("a", lease_ms=1)
    until(lambda: not host.keepers(), "the keeper has ended")


def test_a_spark_that_lacks_what_sending_needs_has_keepers_without_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Keepers, "why_not_sent", lambda _: "this Spark lacks a.name")
    assert {"transfer.java", "arrival.java"}.isdisjoint(host.texts())
    host.deliver("a")
    (keeper,) = host.keepers()
    assert host.copies(keeper).keys() == {"a"}


def test_the_properties_of_a_jvm_with_a_keeper_can_be_stored(host: Host) -> None:
    host.deliver("a")
    assert host.keepers()
    host.jvm.java.lang.System.getProperties().store(host.jvm.java.io.ByteArrayOutputStream(), "")


def test_a_keeper_that_ends_still_closes_the_store_that_a_copy_has_replaced(
    host: Host, spark: SparkSession, tmp_path: Path
) -> None:
    stores = Stores(spark, tmp_path, {})
    owner = stores.owner()
    owner.write(0, {"key": "value"})
    task = owner.begin(1)
    host.deliver("a")
    (keeper,) = host.keepers()
    host.replace(keeper, stores.id, owner.provider)
    host.end(keeper)
    assert owner.is_open()
    task.abort()
    until(lambda: not host.keepers(), "the keeper has nothing left to close")
    stores.close_queued()
    assert not owner.is_open()
