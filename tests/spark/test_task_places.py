from __future__ import annotations

from collections.abc import Callable

from tests.interleaving import Interrupted, SecondThread, WatchedLock

from elastream import TaskId
from elastream.spark.observe.watched_query import Places, TaskPlaces

FIRST, SECOND = TaskId("query", 0, 0), TaskId("query", 0, 1)


def places_with(act: Callable[[TaskPlaces], None]) -> tuple[TaskPlaces, SecondThread]:
    """Places, and a thread that acts on them when it is called."""
    places, lock = TaskPlaces(), WatchedLock()
    places._lock = lock  # type: ignore[assignment]
    return places, SecondThread(lock, lambda: act(places))


def test_a_request_is_open_until_a_batch_shows_the_task_there() -> None:
    places = TaskPlaces()
    places.observe({FIRST: "1", SECOND: "1"})
    places.request({FIRST: "2", SECOND: "2"})
    places.observe({FIRST: "2"})
    assert places.now == Places({FIRST: "2", SECOND: "1"}, {SECOND: "2"})
    places.withdraw([SECOND])
    assert places.now == Places({FIRST: "2", SECOND: "1"}, {})


def test_a_request_made_while_a_batch_is_taken_in_is_not_lost() -> None:
    places, second = places_with(lambda places: places.request({SECOND: "2"}))
    places.request({FIRST: "1"})
    places.observe(Interrupted({FIRST: "1", SECOND: "1"}, second))
    second.join()
    assert places.now == Places({FIRST: "1", SECOND: "1"}, {SECOND: "2"})


def test_a_batch_taken_in_while_a_request_is_made_is_not_lost() -> None:
    places, second = places_with(lambda places: places.observe({FIRST: "1"}))
    places.request(Interrupted({SECOND: "2"}, second))
    second.join()
    assert places.now == Places({FIRST: "1"}, {SECOND: "2"})


def test_what_was_read_does_not_change_in_the_reader_s_hands() -> None:
    places = TaskPlaces()
    places.request({FIRST: "1"})
    before = places.now
    seen = []
    for task in before.requested:
        places.request({SECOND: "2"})
        seen.append(task)
    assert seen == [FIRST]
    assert before == Places({}, {FIRST: "1"})
