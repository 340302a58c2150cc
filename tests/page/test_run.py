from __future__ import annotations

import json
from dataclasses import replace

from tests.interleaving import Interrupted, SecondThread, WatchedLock
from tests.page.runs import begun

from elastream.core.decision_log import LogEntry
from elastream.core.scene_lines import Json, laid_over, whole_record
from elastream.core.scenes import Scene
from elastream.page.run import Run


def test_what_two_threads_write_is_taken_in_one_after_the_other() -> None:
    scenes: list[Scene] = []

    def keep(entry: LogEntry) -> None:
        if isinstance(entry, Scene):
            scenes.append(entry)

    cluster, loop = begun()
    loop.add_log(keep)
    with loop:
        cluster.advance(60)
    run, lock = Run("a run"), WatchedLock()
    run._taking = lock  # type: ignore[assignment]
    first, second = scenes[-1], scenes[len(scenes) // 2]
    other = SecondThread(lock, lambda: run.take(second))
    run.take(scenes[0])
    run.take(replace(first, tasks=Interrupted(first.tasks, other)))
    other.join()
    lines = run.history.read(None).lines
    assert [json.loads(line)["at_ms"] for line in lines] == [
        scene.at_ms for scene in (scenes[0], first, second)
    ]
    seen: Json = {}
    for line in lines:
        seen = laid_over(seen, json.loads(line))
    assert seen["queries"] == whole_record(second)["queries"]
    assert run.seen() == whole_record(second)
    batches = sum(len(scene.batches) for scene in (scenes[0], first, second))
    counted = run.counts.now.queries.values()
    assert sum(sum(each.batch_s.counts) for each in counted) == batches
