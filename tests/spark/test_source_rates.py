"""Copies come from the source that was measured to be faster."""

from __future__ import annotations

from dataclasses import replace

from elastream.spark.internals.keepers import CopyStatus
from elastream.spark.steer.source_rates import SourceRates

MB = 1_000_000
READY = CopyStatus("ready", 7, 0, MB, 100, "", "")


def test_the_faster_source_is_taken_and_the_other_measured_by_the_last_of_several() -> None:
    rates, stores = SourceRates(), ["1", "2", "3"]
    assert rates.from_executors(stores, "faster", 0.0) == stores
    rates.take_in(replace(READY, sent=100 * MB, took_ms=1000), 0.0)
    assert rates.from_executors(stores, "faster", 1.0) == stores[:-1]
    assert rates.from_executors(["1"], "faster", 1.0) == ["1"]
    rates.take_in(replace(READY, sent=0, bytes=20 * MB, took_ms=1000), 1.0)
    assert rates.from_executors(stores, "faster", 2.0) == stores
    assert rates.described() == "executors gave 100 MB/s, storage gave 20 MB/s"
    rates.take_in(replace(READY, sent=0, bytes=900 * MB, took_ms=1000), 2.0)
    assert rates.from_executors(stores, "faster", 3.0) == []
    assert rates.from_executors(stores, "faster", 4000.0) == ["3"]
    assert rates.from_executors(stores, "executor", 3.0) == stores
    assert rates.from_executors(stores, "storage", 3.0) == []


def test_executors_that_were_waited_for_in_vain_are_slower_than_storage() -> None:
    rates, stores = SourceRates(), ["1", "2"]
    rates.take_in_losses(0.0, 0.0)
    assert rates.described() == ""
    rates.take_in(replace(READY, sent=400 * MB, took_ms=1000), 0.0)
    rates.take_in(replace(READY, sent=0, bytes=50 * MB, took_ms=1000), 0.0)
    assert rates.from_executors(stores, "faster", 1.0) == stores
    rates.take_in_losses(15.0, 1.0)
    assert rates.described() == "executors gave 13 MB/s, storage gave 50 MB/s"
    assert rates.from_executors(stores, "faster", 2.0) == []
    assert rates.from_executors(stores, "faster", 4000.0) == ["2"]
