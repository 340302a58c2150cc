"""Samples: what every task cost, how large its state was and where it was, from time to time.

Traces are made of samples (the load that papers 000 and 001 learn from). Many tasks make samples
rarer, so that a log grows by a bounded amount a batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from elastream.core.application import Observed
from elastream.core.decisions import VERSION
from elastream.model.checks import abbreviate, count, non_negative, non_negatives
from elastream.model.errors import ProblemError
from elastream.model.observation import TaskId


@dataclass(frozen=True, slots=True)
class TaskSample:
    """One task at one moment."""

    executor: str
    work: float
    """Cores it keeps busy; four digits of it are kept."""
    state_bytes: int


@dataclass(frozen=True, slots=True)
class Sample:
    """All tasks at one moment."""

    at_ms: int
    executors: tuple[str, ...]
    """Those alive, oldest first."""
    wanted: int
    """How many there should be, or are where nothing is under way."""
    tasks: Mapping[TaskId, TaskSample]
    """In the order of task ids."""
    rows_per_s: Mapping[str, float] = field(default_factory=dict)
    """Input rows a second of each query that reports them."""


def take_sample(observed: Observed, wanted: int) -> Sample:
    """Return a sample of what was observed, with this many executors wanted."""
    return Sample(
        at_ms=observed.wall_ms or 0,
        executors=tuple(executor.id for executor in observed.executors),
        wanted=wanted,
        tasks={
            task: TaskSample(observed.where(task), load.work, round(load.state_bytes))
            for task, load in observed.tasks()
        },
        rows_per_s={
            query.name: query.load.rows_per_s
            for query in observed.queries.values()
            if query.load.rows_per_s is not None
        },
    )


def sample_line(sample: Sample) -> str:
    """Return the sample as one line of JSON; executors are numbers into the list of them."""
    names = list(dict.fromkeys((*sample.executors, *(t.executor for t in sample.tasks.values()))))
    place = {name: number for number, name in enumerate(names)}
    load: dict[str, dict[str, Any]] = {}
    for (query, operator), group in groupby(sample.tasks.items(), key=lambda item: item[0][:2]):
        tasks = list(group)
        load.setdefault(query, {})[str(operator)] = {
            "partition": [task.partition for task, _ in tasks],
            "executor": [place[each.executor] for _, each in tasks],
            "work": [round(each.work, 4) for _, each in tasks],
            "state": [each.state_bytes for _, each in tasks],
        }
    record = {
        "v": VERSION,
        "at_ms": sample.at_ms,
        "kind": "sample",
        "alive": len(sample.executors),
        "wanted": sample.wanted,
        "executors": names,
        "rows_per_s": {name: round(rate, 1) for name, rate in sample.rows_per_s.items()},
        "load": load,
    }
    return json.dumps(record, separators=(",", ":"), allow_nan=False)


def sample_of(record: Mapping[str, Any]) -> Sample:
    """Return the sample in a record; raises ``ProblemError`` where there is none."""
    try:
        names, load, rates = record["executors"], record["load"], record["rows_per_s"]
        at_ms, alive, wanted = record["at_ms"], record["alive"], record["wanted"]
    except KeyError as error:
        raise ProblemError(error.args[0], "is missing") from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ProblemError("executors", f"{abbreviate(names)} is not a list of names")
    if not isinstance(load, dict) or not isinstance(rates, dict):
        raise ProblemError("load", "is not an object")
    tasks: dict[TaskId, TaskSample] = {}
    for query, operators in load.items():
        for operator, columns in _objects(f"load.{query}", operators).items():
            field_name = f"load.{query}.{operator}"
            for partition, executor, work, state in _rows(field_name, columns):
                number = count(f"{field_name}.partition", partition)
                task = TaskId(query, int(operator), number)
                place = count(f"{field_name}.executor", executor, most=len(names) - 1)
                tasks[task] = TaskSample(names[place], float(work), int(state))
    return Sample(
        at_ms=count("at_ms", at_ms),
        executors=tuple(names[: count("alive", alive, most=len(names))]),
        wanted=count("wanted", wanted),
        tasks=dict(sorted(tasks.items())),
        rows_per_s={
            name: float(non_negative(f"rows_per_s.{name}", r)) for name, r in rates.items()
        },
    )


def _objects(field_name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(key.isdecimal() for key in value):
        raise ProblemError(field_name, f"{abbreviate(value)} is not an object of operators")
    return value


def _rows(field_name: str, columns: object) -> zip[tuple[Any, ...]]:
    names = ("partition", "executor", "work", "state")
    if not isinstance(columns, dict) or any(name not in columns for name in names):
        raise ProblemError(field_name, f"{abbreviate(columns)} lacks a column")
    numbers = [non_negatives(f"{field_name}.{name}", columns[name]) for name in names]
    if len({len(column) for column in numbers}) > 1:
        raise ProblemError(field_name, "has columns of different lengths")
    return zip(*numbers, strict=True)
