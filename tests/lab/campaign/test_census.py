from __future__ import annotations

from collections import Counter

from elastream_lab.campaign.census import left_over


def test_only_the_listeners_of_the_applications_own_queries_may_stay() -> None:
    bus = "StreamingQueryListenerBus"
    before = Counter({"AppStatusListener": 1, bus: 1})
    after = before + Counter({bus: 3})
    assert left_over(before, after, started=2) == []
    assert left_over(before, after, started=1) == [bus]
    assert left_over(before, after + Counter({"Tap": 1}), started=2) == ["Tap"]
