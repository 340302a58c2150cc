"""A simulated cluster that plays the ports of the loop for several queries at once.

Deterministic: time passes only in :meth:`SimulatedCluster.advance` and what is built on it.

A batch of a query reads the rows that wait. Half of its overhead comes first, then its stages one
after another, each of which ends with its last task, then the other half. Tasks queue for the slots
of executors, those of all queries together (:mod:`elastream.testing.slots`).

A task runs where it is preferred: on the executor last placed, else where it ran before, else, if
that is gone, on the executor with the fewest tasks, as Spark would; this is settled when the batch
begins. A task that changes its executor first loads its state there; a cold executor's first task
pays for the start. Where links are limited, a batch begins its work when all state that moves with
it has travelled. The next batch begins when the trigger fires or the batch ends, whichever is
later; without rows none begins, and the query is idle. Where no executor is alive a batch waits. An
executor that dies does its part of the batches under way.

Real-time queries are in :mod:`elastream.testing.realtime`. Their tasks keep slots. Where a batch of
theirs finds too few, as jobs and other such queries leave them, the query ends; so it does when an
executor dies that runs one of its tasks. Micro-batches take no slots from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from elastream.core.events import (
    BatchObserved,
    BoundaryNear,
    ExecutorsChanged,
    Fact,
    LoadObserved,
    QueryJoined,
    QueryLeft,
    Status,
)
from elastream.core.ports import Copied, CopySource, Placed, Ticket
from elastream.model.checks import positive
from elastream.model.errors import ElastreamError, ProblemError
from elastream.model.observation import BatchObservation, Executor, TaskId
from elastream.testing.query import SimulatedQuery
from elastream.testing.realtime import RealTimeQuery
from elastream.testing.slots import SharedCores, Slots, Stage
from elastream.testing.workload import ClusterSettings, Workload


@dataclass(slots=True)
class _Executor:
    id: str
    host: str
    born_ms: float
    warm: bool
    speed: float


class SimulatedCluster:
    """Monitor, executor pool, state placement and copies of a simulated application.

    A test makes things happen between two calls that let time pass: :meth:`kill`,
    :meth:`set_speed`, :meth:`hold_up`, :meth:`run_job`, :meth:`begin_query`, :meth:`end_query`,
    ``slots`` and ``obeys``.
    """

    def __init__(
        self, workloads: Workload | Sequence[Workload], settings: ClusterSettings | None = None
    ) -> None:
        self.settings = settings or ClusterSettings()
        self.now_ms = 0.0
        self.obeys: Callable[[TaskId], bool] = lambda _: True
        """Whether the next batch will obey a placement of the task; tests replace it."""
        self.slots = self.settings.slots
        """Most executors it has room for now; with fewer than are asked for the rest never come."""
        self.queries: dict[str, SimulatedQuery | RealTimeQuery] = {}
        self.copies: dict[TaskId, str] = {}
        """Where the state of a task was copied to that has not come there yet."""
        self._born = 0
        self._runs = 0
        self._alive: list[_Executor] = []
        self._listeners: list[Callable[[Fact], None]] = []
        self._looked_ms = 0.0
        self._status_ms = 1000 * self.settings.status_s
        self._later: list[tuple[float, Callable[[], None]]] = []
        """What is to be done, and when, in order."""
        self._known: tuple[Executor, ...] = ()
        self._jobs: list[tuple[str, Stage]] = []
        """Jobs of no query, each on one executor."""
        at_once, cores = self.settings.tasks_at_once, self.settings.cores
        self._slots: Slots = SharedCores(at_once, cores) if at_once > cores else Slots(at_once)
        self._start(self.settings.executors, warm=True)
        for workload in [workloads] if isinstance(workloads, Workload) else workloads:
            self.begin_query(workload)

    def subscribe(self, listener: Callable[[Fact], None]) -> Callable[[], None]:
        """Call ``listener`` with every fact; return how to unsubscribe."""
        self._listeners.append(listener)
        for query in self.queries.values():
            listener(self._joined(query))
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def executors(self) -> tuple[Executor, ...]:
        """Return the executors that are alive, oldest first."""
        cores, task_cpus = self.settings.cores, self.settings.task_cpus
        return tuple(
            Executor(each.id, each.host, round(each.born_ms), each.warm, cores, task_cpus)
            for each in self._alive
        )

    def grow(self, total: int, *, timeout_s: float, ticket: Ticket) -> tuple[Executor, ...]:  # noqa: ARG002
        """Start executors up to ``total``, or as many as there are slots."""
        ticket.check()
        self._start(min(total, self.slots) - len(self._alive), warm=False)
        return self.executors()

    def warm(self, ids: Sequence[str], *, ticket: Ticket) -> None:
        """Make the executors warm."""
        ticket.check()
        for executor in self._alive:
            executor.warm = executor.warm or executor.id in ids

    def release(self, ids: Sequence[str], *, ticket: Ticket) -> None:
        """Take the executors away; refused while one of them holds state that a batch needs."""
        ticket.check()
        held = {
            executor
            for query in self.queries.values()
            if not query.idle
            for executor in (*query.where.values(), *query.preferred.values())
        }
        if holding := sorted(held & set(ids)):
            raise ElastreamError(f"executor {', '.join(holding)} still holds state")
        for executor in ids:
            self._end(executor)
        self._report_executors()

    def place(
        self,
        query: str,
        wanted: Mapping[TaskId, str],
        *,
        lost: Sequence[str] = (),  # noqa: ARG002 - no batch waits for them here
        ticket: Ticket,
    ) -> Placed:
        """Prefer these executors for these tasks from the query's next batch on."""
        ticket.check()
        of = self.queries[query]
        if isinstance(of, RealTimeQuery) and not of.may_be_placed(self.now_ms):
            raise ElastreamError(f"{query} was placed while a batch uses its state")
        ahead = frozenset(task for task, node in wanted.items() if self.copies.get(task) == node)
        of.preferred.update(wanted)
        of.ahead.update(ahead)
        for task in ahead:
            del self.copies[task]
        return Placed(of.idle, ahead)

    def copy(
        self,
        wanted: Mapping[TaskId, str],
        *,
        soon: bool = True,  # noqa: ARG002 - it is at once here
        source: CopySource = "storage",
        ticket: Ticket,
    ) -> Copied:
        """Copy the state of these tasks to these executors, where those are alive."""
        ticket.check()
        alive = {executor.id for executor in self._alive}
        self.copies = {task: node for task, node in wanted.items() if node in alive}
        sizes = {
            task: each.state_bytes
            for query in self.queries.values()
            for task, each in zip(query.workload.task_ids, query.workload.tasks, strict=True)
        }
        where = self.where()
        owned = {task for task, owner in where.items() if owner in alive}
        sent = {task for task in self.copies if task in owned and source != "storage"}
        from_storage = sum(sizes[task] for task in self.copies if task not in sent)
        why = None if len(self.copies) == len(wanted) else "its executor was lost"
        from_executors = sum(sizes[task] for task in sent)
        width = self.settings.bytes_per_s
        ends = {node for task in sent for node in (where[task], self.copies[task])}
        links = {} if width is None else dict.fromkeys(ends, width)
        copied = frozenset(self.copies)
        return Copied(copied, from_storage, from_executors, why, link_bytes_per_s=links)

    def drop(self) -> None:
        """Drop every copy that was not taken over."""
        self.copies = {}

    def where(self) -> dict[TaskId, str]:
        """Return the executor id of every task that has one."""
        return {task: node for query in self.queries.values() for task, node in query.where.items()}

    def round_trips_ms(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], float]:
        """Return how far the hosts of each pair are from each other, where the settings say so."""
        known = self.settings.round_trips_ms or {}
        either = {**{(there, here): ms for (here, there), ms in known.items()}, **known}
        return {pair: either[pair] for pair in pairs if pair in either}

    def set_speed(self, executor: str, speed: float) -> None:
        """Let an executor work so fast from its next batch on; 1 is as fast as the tasks say."""
        if speed <= 0:
            raise ProblemError("speed", f"{speed:g} is not positive")
        self._executor(executor).speed = speed

    def hold_up(self, query: str, seconds: float) -> None:
        """Let the query's next batch take that much longer, with no executor busy meanwhile."""
        self.queries[query].held_up_ms = 1000 * seconds  # of a Real-time query: its boundary

    def run_job(self, executor: str, seconds: float) -> None:
        """Let a job of no query run there: one task, as soon as it gets a slot, for this long."""
        positive("seconds", seconds)
        job = Stage([(self._executor(executor).id, 1000 * seconds)])
        self._jobs.append((executor, job))
        self._slots.submit(job, self.now_ms)

    def kill(self, executor: str, *, at_once: bool = True) -> None:
        """Let an executor die, with the state it holds in memory; the checkpoint has it too.

        It is reported ``at_once``, else with the next status.
        """
        self._end(self._executor(executor).id)
        for name, query in tuple(self.queries.items()):
            ran = (
                {*query.where.values(), *query.sources} if isinstance(query, RealTimeQuery) else ()
            )
            if executor in ran:
                self.end_query(name, f"a task failed: executor {executor} was lost")
        if at_once:
            self._report_executors()

    def begin_query(self, workload: Workload) -> None:
        """Start a query, or the next run of one that ended."""
        self._runs += 1
        kind = RealTimeQuery if workload.real_time else SimulatedQuery
        query = kind(workload, run=f"run {self._runs}", begins_ms=self.now_ms)
        self.queries[workload.name] = query
        self._report(self._joined(query))

    def end_query(self, name: str, why: str = "the query has ended") -> None:
        """End a query; tasks that have a slot, or queue for one, keep it until they have ended."""
        query = self.queries.pop(name)
        query.stop()
        self._report(QueryLeft(round(self.now_ms), name, query.run, why))

    def advance(self, seconds: float) -> list[BatchObservation]:
        """Let time pass; return the batches that committed in it."""
        end_ms = self.now_ms + 1000 * seconds
        done: list[BatchObservation] = []
        while (step_ms := self._next_ms(end_ms)) <= end_ms:
            done += self._pass_to(step_ms)
        self._pass_to(end_ms)
        return done

    def run_batch(self, *, most_s: float = 600.0) -> BatchObservation | None:
        """Let time pass until a batch commits; ``None`` where none does for long."""
        end_ms = self.now_ms + 1000 * most_s
        while (step_ms := self._next_ms(end_ms)) <= end_ms:
            if done := self._pass_to(step_ms):
                return done[0]
        return None

    def run_batches(self, number: int) -> None:
        """Let this many batches pass, of whatever query."""
        for _ in range(number):
            self.run_batch()

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something after this time, at once where it is 0."""
        if seconds == 0:
            what()
            return
        self._later.append((self.now_ms + 1000 * seconds, what))
        self._later.sort(key=lambda due: due[0])

    def _next_ms(self, end_ms: float) -> float:
        """Return when something happens next: a batch begins or commits, or a look is due.

        Until then, or ``end_ms`` if that is first, tasks have begun and ended.
        """
        while True:
            moments = [query.next_ms(self._can_run) for query in self.queries.values()]
            moments += [at_ms for at_ms, _ in self._later[:1]]
            next_ms = max(self.now_ms, min((*moments, self._looked_ms + self._status_ms)))
            if self._slots.next_ms() > min(next_ms, end_ms):
                return next_ms
            self._slots.step()

    @property
    def _can_run(self) -> bool:
        return bool(self._alive)

    def _pass_to(self, at_ms: float) -> list[BatchObservation]:
        """Pass on to a moment; at most one batch commits, the others' turn comes at once after."""
        for query in self.queries.values():
            query.arrive(self.now_ms, at_ms)
        self._work(self.now_ms, at_ms)
        self.now_ms = at_ms
        while self._later and self._later[0][0] <= at_ms:
            self._later.pop(0)[1]()
        done: list[BatchObservation] = []
        for query in tuple(self.queries.values()):
            if isinstance(query, RealTimeQuery):
                if (ends_ms := query.near(at_ms)) is not None:
                    name = query.workload.name
                    self._report(BoundaryNear(round(at_ms), name, query.run, ends_ms))
                observed = query.committed(at_ms)
            else:
                observed = query.committed(at_ms, self.settings.tasks_at_once)
            if observed is not None:
                done.append(observed)
                self._report(BatchObserved(observed))
                self._kill_full()
                break
        for query in tuple(self.queries.values()):
            if self._alive and query.ready(at_ms):
                self._run(query)
        if at_ms >= self._looked_ms + self._status_ms:
            if self._known != self.executors():
                self._report_executors()
            self._report(self._status())
            self._looked_ms = at_ms
            for query in tuple(self.queries.values()):
                if isinstance(query, RealTimeQuery) and (look := query.look(at_ms)) is not None:
                    self._report(LoadObserved(look))
        return done

    def _work(self, from_ms: float, until_ms: float) -> None:
        """Let Real-time queries work off rows; those that began first take the cores first."""
        free = dict.fromkeys((each.id for each in self._alive), float(self.settings.cores))
        speeds = {each.id: each.speed for each in self._alive}
        for query in self.queries.values():
            if isinstance(query, RealTimeQuery):
                for node, cores in query.work(from_ms, until_ms, speeds, free).items():
                    free[node] = max(0.0, free.get(node, 0.0) - cores)

    def _slots_left(self, query: RealTimeQuery) -> int:
        """Return how many slots jobs and other Real-time queries leave for a query."""
        taken = sum(job.ran[0][2] > self.now_ms for _, job in self._jobs)
        for other in self.queries.values():
            if isinstance(other, RealTimeQuery) and other is not query:
                taken += other.slots if other.sources else 0
        return len(self._alive) * self.settings.tasks_at_once - taken

    def _status(self) -> Status:
        idle = frozenset(name for name, query in self.queries.items() if query.idle)
        other: dict[str, float] = {}
        for executor, job in self._jobs:
            _, from_ms, until_ms = job.ran[0]
            ran_ms = min(until_ms, self.now_ms) - max(from_ms, self._looked_ms)
            if ran_ms > 0:
                other[executor] = other.get(executor, 0.0) + ran_ms
        self._jobs = [(node, job) for node, job in self._jobs if job.ran[0][2] > self.now_ms]
        jobs = len(self.queries) - len(idle) + len(self._jobs)
        return Status(round(self.now_ms), idle, jobs, other)

    def _kill_full(self) -> None:
        """Kill the executors whose state is more than their memory."""
        if self.settings.memory_bytes is None:
            return
        held = dict.fromkeys((each.id for each in self._alive), 0)
        for query in self.queries.values():
            for task, each in zip(query.workload.task_ids, query.workload.tasks, strict=True):
                for places in (query.where, self.copies):
                    if task in places:
                        held[places[task]] += each.state_bytes
        if full := [node for node, size in held.items() if size > self.settings.memory_bytes]:
            for executor in full:
                self._end(executor)
            self._report_executors()

    def _run(self, query: SimulatedQuery | RealTimeQuery) -> None:
        cold = {each.id for each in self._alive if not each.warm}
        speeds = {each.id: each.speed for each in self._alive}
        used = set()
        if isinstance(query, RealTimeQuery):
            if (left := self._slots_left(query)) < query.slots:
                lacking = f"its batch needs {query.slots} slots at once, {left} are free"
                self.end_query(query.workload.name, lacking)
                return
            query.run_batch(self.now_ms, speeds, self.settings, cold=cold, obeys=self.obeys)
            used.update(query.sources)
        else:
            query.run_batch(
                self.now_ms, speeds, self.settings, self._slots, cold=cold, obeys=self.obeys
            )
        used.update(query.where.values())
        for executor in self._alive:
            executor.warm = executor.warm or executor.id in used

    def _start(self, number: int, *, warm: bool) -> None:
        for _ in range(number):
            hosts, speeds = self.settings.hosts, self.settings.speeds or {}
            host = hosts[self._born % len(hosts)]
            speed = speeds.get(host, 1.0)
            self._alive.append(_Executor(str(self._born), host, self.now_ms, warm, speed))
            self._born += 1

    def _executor(self, executor: str) -> _Executor:
        for each in self._alive:
            if each.id == executor:
                return each
        known = ", ".join(each.id for each in self._alive) or "none"
        raise ProblemError("executor", f"{executor!r} is not alive; alive are {known}")

    def _end(self, executor: str) -> None:
        self._alive = [other for other in self._alive if other.id != executor]
        self._jobs = [(node, job) for node, job in self._jobs if node != executor]
        self._slots.forget(executor)
        self.copies = {task: node for task, node in self.copies.items() if node != executor}
        for query in self.queries.values():
            query.where = {task: node for task, node in query.where.items() if node != executor}

    def _joined(self, query: SimulatedQuery | RealTimeQuery) -> QueryJoined:
        load = query.workload
        return QueryJoined(
            round(self.now_ms),
            load.name,
            query.run,
            load.graph,
            len(load.tasks),
            load.trigger_ms,
            realtime=load.real_time,
            slots=query.slots if isinstance(query, RealTimeQuery) else 0,
        )

    def _report_executors(self) -> None:
        self._known = self.executors()
        self._report(ExecutorsChanged(round(self.now_ms), self._known))

    def _report(self, fact: Fact) -> None:
        for listener in tuple(self._listeners):
            listener(fact)
