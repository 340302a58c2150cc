"""Scenes as lines of JSON, each with what has changed since the one before.

A scene of a thousand tasks has some 50 kB, what changes in a batch some hundred bytes. So a line is
either *whole*, or has what has changed: members of the loop, of executors and of queries, tasks,
and ``null`` for those that are gone. A reader that lays the lines over each other has the scene.

Loads and sizes are written again where they differ enough to be seen, a bounded number a line,
those furthest off first. A whole line comes first, and again when the others have grown to several
times its size, so that a reader may begin in the middle and a torn line is soon made up for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from elastream.core.decisions import VERSION
from elastream.core.scenes import Scene, SceneTask
from elastream.model.checks import abbreviate, count
from elastream.model.errors import ProblemError
from elastream.model.observation import TaskId

SCENE: Final = "scene"
"""The kind of such a line."""
_MERGED: Final = ("executors", "queries")
"""Written entry by entry, and of an entry the members that have changed."""
_PARTS: Final = (*_MERGED, "tasks")

_BUSY_STEP: Final = 0.02
_WORK_STEP: Final = 0.01
_WORK_SHARE: Final = 0.15
_SIZE_SHARE: Final = 0.05
"""A load or size is written again where it is off by this much."""
_LEAST_SIZE: Final = 4096
_LOADS_A_LINE: Final = 40
_WHOLE_EVERY: Final = 4
"""Whole lines are at most a fifth of what is written."""

Json = dict[str, Any]
Tasks = Mapping[TaskId, SceneTask]


class SceneEncoder:
    """Encodes the scenes of one log or listener, line by line."""

    def __init__(self) -> None:
        self._last: Json | None = None
        self._tasks: Tasks = {}
        self._whole_bytes = 0
        self._since_bytes = 0

    def start_over(self) -> None:
        """Encode the next scene whole."""
        self._last = None

    def encode(self, scene: Scene) -> tuple[Json, str]:
        """Return what has changed since the scene before, as a record and as a line."""
        now = _seen(scene)
        if self._last is None or self._since_bytes > _WHOLE_EVERY * self._whole_bytes:
            record = _whole(scene, now)
            known, self._tasks = now, scene.tasks
        else:
            record, known = {**_head(scene)}, _without_trifles(self._last, now)
            record.update(_difference(self._last, known))
            changed, self._tasks = _changed_tasks(self._tasks, scene.tasks)
            if changed:
                record["tasks"] = changed
        if scene.batches:
            record["batches"] = [
                [each.query, each.batch, each.at_ms, round(each.ms), each.rows]
                for each in scene.batches
            ]
        self._last = known
        line = json.dumps(record, separators=(",", ":"), allow_nan=False)
        if "whole" in record:
            self._whole_bytes, self._since_bytes = len(line), 0
        else:
            self._since_bytes += len(line)
        return record, line


def whole_record(scene: Scene) -> Json:
    """Return a scene as one record, its batches left out."""
    return _whole(scene, _seen(scene))


def laid_over(below: Json, line: Json) -> Json:
    """Return what is seen when a checked line is laid over what was seen before it."""
    if line.get("whole"):
        return line
    seen = {**below, **{name: value for name, value in line.items() if name not in _PARTS}}
    seen["loop"] = {**below["loop"], **line.get("loop", {})}
    for part in _PARTS:
        known = dict(below[part])
        for name, entry in line.get(part, {}).items():
            if entry is None:
                known.pop(name, None)
            elif part in _MERGED:
                known[name] = {**known.get(name, {}), **entry}
            else:
                known[name] = entry
        seen[part] = known
    return seen


def checked_scene(record: Mapping[str, Any]) -> Json:
    """Return a checked record; raises ``ProblemError`` where it is not one of a scene."""
    count("at_ms", record.get("at_ms"))
    for name in ("loop", *_PARTS):
        if record.get("whole") or name in record:
            _object(name, record.get(name))
    for part in _MERGED:
        for name, entry in record.get(part, {}).items():
            if entry is not None:
                _object(f"{part}.{name}", entry)
    for name, entry in record.get("tasks", {}).items():
        if entry is not None and not (isinstance(entry, list) and len(entry) in (3, 5)):
            raise ProblemError(f"tasks.{name}", f"{abbreviate(entry)} is not a list of 3 or 5")
    if record.get("change") is not None:
        _object("change", record["change"])
    batches = record.get("batches", [])
    if not isinstance(batches, list) or not all(_is_batch(each) for each in batches):
        raise ProblemError("batches", f"{abbreviate(batches)} is not a list of batches")
    return dict(record)


def _object(name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise ProblemError(name, f"{abbreviate(value)} is not an object")


def _is_batch(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 5
        and isinstance(value[0], str)
        and all(isinstance(each, int | float) for each in value[1:])
    )


def _whole(scene: Scene, seen: Json) -> Json:
    return {**_head(scene), "whole": True, **seen, "tasks": _texts(scene.tasks)}


def _head(scene: Scene) -> Json:
    return {"v": VERSION, "kind": SCENE, "at_ms": scene.at_ms}


def _seen(scene: Scene) -> Json:
    """Return all but the tasks."""
    return {
        "loop": _rounded(asdict(scene.loop)),
        "executors": {name: _rounded(asdict(each)) for name, each in scene.executors.items()},
        "queries": {name: _rounded(asdict(each)) for name, each in scene.queries.items()},
        "change": None if scene.change is None else _rounded(asdict(scene.change)),
    }


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, 3)
        case dict():
            return {name: _rounded(each) for name, each in value.items()}
        case tuple():
            return [_rounded(each) for each in value]
        case _:
            return value


def _without_trifles(last: Json, now: Json) -> Json:
    """Return what is seen now, with figures of executors as they were where they are close."""
    executors = {}
    for name, each in now["executors"].items():
        before, size = last["executors"].get(name, {}), each["store_memory_bytes"]
        busy, held = before.get("busy"), before.get("store_memory_bytes")
        kept = {}
        if None not in (busy, each["busy"]) and abs(busy - each["busy"]) < _BUSY_STEP:
            kept["busy"] = busy
        if held is not None and abs(held - size) < _SIZE_SHARE * max(held, _LEAST_SIZE):
            kept["store_memory_bytes"] = held
        executors[name] = {**each, **kept}
    return {**now, "executors": executors}


def _difference(last: Json, now: Json) -> Json:
    """Return what leads from one to the other."""
    record: Json = {}
    if loop := _changed(last["loop"], now["loop"]):
        record["loop"] = loop
    if now["change"] != last["change"]:
        record["change"] = now["change"]
    for part in _MERGED:
        entries: Json = dict.fromkeys(last[part].keys() - now[part].keys())
        for name, each in now[part].items():
            if changed := _changed(last[part].get(name, {}), each):
                entries[name] = changed
        if entries:
            record[part] = entries
    return record


def _changed(last: Json, now: Json) -> Json:
    nothing = object()
    return {name: value for name, value in now.items() if last.get(name, nothing) != value}


def _changed_tasks(last: Tasks, now: Tasks) -> tuple[Json, Tasks]:
    """Return the tasks to be written, and how a reader knows all of them then."""
    changed, off = {}, []
    for task, each in now.items():
        known = last.get(task)
        if known is each:
            continue
        if known is None or _place(known) != _place(each):
            changed[task] = each
        elif (by := _off_by(known, each)) >= 1:
            off.append((by, task))
    if len(off) > _LOADS_A_LINE:
        off = sorted(off, key=lambda pair: -pair[0])[:_LOADS_A_LINE]
    changed.update({task: now[task] for _, task in off})
    record: Json = _texts(changed)
    record.update({str(task): None for task in last.keys() - now.keys()})
    return record, {task: changed.get(task) or last[task] for task in now}


def _texts(tasks: Tasks) -> Json:
    return {str(task): _text(each) for task, each in tasks.items()}


def _text(task: SceneTask) -> list[Any]:
    last: list[Any] = [task.executor, round(task.work, 4), task.state_bytes]
    if task.standby is not None or task.heading is not None:
        last += [task.standby, task.heading]
    return last


def _place(task: SceneTask) -> tuple[str, str | None, str | None]:
    return task.executor, task.standby, task.heading


def _off_by(last: SceneTask, now: SceneTask) -> float:
    """Return how far off what was written is; from 1 on it is written again."""
    work = abs(last.work - now.work) / max(_WORK_STEP, _WORK_SHARE * last.work)
    size = abs(last.state_bytes - now.state_bytes)
    return max(work, size / (_SIZE_SHARE * max(last.state_bytes, _LEAST_SIZE)))
