"""Where the tasks of a query ran, and where they were requested to be since.

The monitor's thread writes what a batch showed, a lane of the loop writes what is requested, and
another lane reads both before executors are released. A request must not be lost between the two,
and a reader must not see one without the other: an executor that a task is on its way to would be
released under it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from elastream.model.observation import TaskId


@dataclass(frozen=True, slots=True)
class Places:
    """Both at one moment."""

    observed: Mapping[TaskId, str] = field(default_factory=dict)
    """The executor on which the last batch ran each task."""
    requested: Mapping[TaskId, str] = field(default_factory=dict)
    """The executors of tasks that no batch has shown there yet."""


class TaskPlaces:
    """The places of one run's tasks, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = Places()

    @property
    def now(self) -> Places:
        """What is known now; it never changes in the reader's hands."""
        return self._now

    def request(self, executors: Mapping[TaskId, str]) -> None:
        """Note where tasks are requested to be."""
        with self._lock:
            now = self._now
            self._now = Places(now.observed, {**now.requested, **executors})

    def withdraw(self, tasks: Collection[TaskId]) -> None:
        """Note that these tasks are requested nowhere: nobody has told Spark."""
        with self._lock:
            now = self._now
            requested = {task: node for task, node in now.requested.items() if task not in tasks}
            self._now = Places(now.observed, requested)

    def observe(self, executors: Mapping[TaskId, str]) -> None:
        """Note where a batch ran tasks; requests that it has obeyed are done with."""
        with self._lock:
            now = self._now
            observed = {**now.observed, **executors}
            requested = {
                task: executor
                for task, executor in now.requested.items()
                if observed.get(task) != executor
            }
            self._now = Places(observed, requested)
