"""Rows of a Real-time batch, from counts that heartbeats bring."""

from __future__ import annotations

from elastream.spark.observe.realtime import RowRate


def test_the_rate_is_what_two_counts_of_one_batch_differ_by() -> None:
    rate = RowRate()
    rate.count(0, 100, 10.0)
    assert rate.rows_per_s is None
    rate.count(0, 600, 20.0)
    assert rate.rows_per_s == 50


def test_the_first_count_of_a_batch_leaves_the_rate_as_it_was() -> None:
    rate = RowRate()
    for batch, rows, at_s in ((0, 0, 0.0), (0, 500, 10.0), (1, 3, 20.0)):
        rate.count(batch, rows, at_s)
    assert rate.rows_per_s == 50
    rate.count(1, 103, 30.0)
    assert rate.rows_per_s == 10


def test_counts_are_due_at_each_batch_and_with_each_heartbeat() -> None:
    rate = RowRate()
    assert rate.is_due(0, 0.0)
    rate.count(0, 0, 0.0)
    assert not rate.is_due(0, 9.0)
    assert rate.is_due(0, 10.0)
    assert rate.is_due(1, 1.0)
