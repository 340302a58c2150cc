"""A simulated cluster that plays all three ports of the loop, one micro-batch at a time.

Deterministic: time passes only in :meth:`SimulatedCluster.run_batch`, and chance is an argument.

A batch reads the rows that wait, takes ``overhead_ms`` plus the time of the busiest executor, and
runs each task where it is preferred: on the executor last placed, else where it ran before, else,
if that is gone, on the executor with the fewest tasks (as Spark would, it does not ask for load).
A task that changes its executor first loads its state there; a cold executor's first task pays for
the start. The next batch begins when the trigger fires or the batch ends, whichever is later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from elastream.control.observation import BatchObservation, Executor, TaskId, TaskObservation
from elastream.model.errors import ElastreamError
from elastream.simulation.workload import Workload

__all__ = ["ClusterSettings", "SimulatedCluster"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What the cluster is like."""

    executors: int = 2
    """Alive at the start."""
    slots: int = 1000
    """Most executors it has room for."""
    cores: int = 1
    """Of each executor."""
    trigger_ms: float = 1000.0
    """A batch begins at most this often."""
    overhead_ms: float = 100.0
    """What every batch takes besides its stateful tasks."""
    cold_ms: float = 0.0
    """What the first task of a cold executor takes on top."""
    load_ms_per_mib: float = 1.0
    """What loading state takes."""
    most_rows: int | None = None
    """Most rows a batch reads; ``None`` for all that wait."""


@dataclass(slots=True)
class _Executor:
    id: str
    born_ms: float
    warm: bool


class SimulatedCluster:
    """Monitor, executor pool and state placement of one simulated query."""

    def __init__(self, workload: Workload, settings: ClusterSettings | None = None) -> None:
        self.workload = workload
        self.settings = settings or ClusterSettings()
        self.now_ms = 0.0
        self.obeys: Callable[[TaskId], bool] = lambda _: True
        """Whether the next batch will obey a placement of the task; tests replace it."""
        self._batch = 0
        self._began_ms = 0.0
        self._committed_ms: float | None = None
        self._waiting = 0.0
        self._born = 0
        self._alive: list[_Executor] = []
        self._where: dict[TaskId, str] = {}
        self._preferred: dict[TaskId, str] = {}
        self._heard: list[Callable[[BatchObservation], None]] = []
        self._start(self.settings.executors, warm=True)

    def subscribe(self, heard: Callable[[BatchObservation], None]) -> Callable[[], None]:
        """Call ``heard`` after every batch; return how to unsubscribe."""
        self._heard.append(heard)
        return lambda: self._heard.remove(heard) if heard in self._heard else None

    def executors(self) -> tuple[Executor, ...]:
        """Return the executors that are alive, oldest first."""
        return tuple(
            Executor(
                id=executor.id,
                host="simulated",
                age_s=(self.now_ms - executor.born_ms) / 1000,
                warm=executor.warm,
                cores=self.settings.cores,
            )
            for executor in self._alive
        )

    def grow(self, total: int, *, timeout_s: float) -> tuple[Executor, ...]:  # noqa: ARG002
        """Start executors up to ``total``, or as many as there are slots."""
        self._start(min(total, self.settings.slots) - len(self._alive), warm=False)
        return self.executors()

    def warm(self, ids: Sequence[str]) -> None:
        """Make the executors warm."""
        for executor in self._alive:
            executor.warm = executor.warm or executor.id in ids

    def release(self, ids: Sequence[str]) -> None:
        """Take the executors away; refused while one of them holds state."""
        holding = sorted(set(ids) & set(self._where.values()))
        if holding:
            raise ElastreamError(f"executor {', '.join(holding)} still holds state")
        for executor in ids:
            self.kill(executor)

    def where(self) -> Mapping[TaskId, str]:
        """Return the executor id of every task that has one."""
        return dict(self._where)

    def place(self, wanted: Mapping[TaskId, str]) -> None:
        """Prefer these executors for these tasks from the next batch on."""
        self._preferred.update(wanted)

    def kill(self, executor: str) -> None:
        """Let an executor die, with the state it holds in memory; the checkpoint has it too."""
        self._alive = [other for other in self._alive if other.id != executor]
        self._where = {task: node for task, node in self._where.items() if node != executor}

    def run_batch(self) -> BatchObservation | None:
        """Let one batch run and tell the subscribers; ``None`` where no executor is alive."""
        began_ms = max(self.now_ms, self._began_ms + self.settings.trigger_ms)
        self._arrive(until_ms=began_ms)
        if not self._alive:
            self.now_ms = self._began_ms = began_ms
            return None
        rows = int(self._waiting)
        if self.settings.most_rows is not None:
            rows = min(rows, self.settings.most_rows)
        tasks = self._run(self.workload.rows_of_tasks(rows))
        self._waiting -= rows
        busy: dict[str, float] = {}
        for task in tasks:
            busy[task.executor] = busy.get(task.executor, 0.0) + task.run_ms
        longest = max(busy.values(), default=0.0) / self.settings.cores
        duration = self.settings.overhead_ms + longest
        self._arrive(until_ms=began_ms + duration)
        before = self._committed_ms
        self._began_ms, self._committed_ms = began_ms, self.now_ms
        observation = BatchObservation(
            batch=self._batch,
            duration_ms=duration,
            rows=rows,
            backlog=int(self._waiting),
            finished_at_ms=round(self.now_ms),
            interval_ms=None if before is None else self.now_ms - before,
            tasks=tasks,
        )
        self._batch += 1
        for heard in tuple(self._heard):
            heard(observation)
        return observation

    def _start(self, number: int, *, warm: bool) -> None:
        for _ in range(number):
            self._alive.append(_Executor(str(self._born), self.now_ms, warm))
            self._born += 1

    def _arrive(self, *, until_ms: float) -> None:
        seconds = (until_ms - self.now_ms) / 1000
        middle_s = (until_ms + self.now_ms) / 2000
        self._waiting += self.workload.rows_per_s(middle_s) * seconds
        self.now_ms = until_ms

    def _run(self, rows_of_tasks: Sequence[int]) -> tuple[TaskObservation, ...]:
        alive = {executor.id: executor for executor in self._alive}
        held = dict.fromkeys(alive, 0)
        for node in self._where.values():
            held[node] += 1
        ran = []
        for task, rows in zip(self.workload.tasks, rows_of_tasks, strict=True):
            before = self._where.get(task.id)
            node = self._node(task.id, held)
            run_ms = rows * task.row_ms
            if node != before:
                held[node] += 1
                if before is not None:
                    held[before] -= 1
                run_ms += self.settings.load_ms_per_mib * task.state_bytes / (1 << 20)
            if not alive[node].warm:
                run_ms += self.settings.cold_ms
                alive[node].warm = True
            self._where[task.id] = node
            ran.append(TaskObservation(task.id, node, run_ms, rows, rows, task.state_bytes))
        self._preferred.clear()
        return tuple(ran)

    def _node(self, task: TaskId, held: Mapping[str, int]) -> str:
        preferred = self._preferred.get(task)
        if preferred is not None and preferred in held and self.obeys(task):
            return preferred
        before = self._where.get(task)
        return before if before is not None else min(held, key=lambda node: held[node])
