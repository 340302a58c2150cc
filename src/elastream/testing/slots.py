"""The slots of simulated executors: tasks of all batches and jobs queue for them, as in Spark.

A stage is submitted with all its tasks. An executor gives its slots to the tasks of the stage that
was submitted first, in their order; a task that may run anywhere takes the first slot that is free
on any executor. A task keeps its slot until it has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace

FOREVER = float("inf")


@dataclass(slots=True, eq=False)
class Stage:
    """Tasks that are submitted together."""

    tasks: Sequence[tuple[str | None, float]]
    """The executor of each, ``None`` for any, and how many ms it takes with a core of its own."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """The executors for tasks that may run anywhere, and how fast each works on those."""
    ended: Callable[[float], None] = field(init=False, default=lambda _: None)
    """Called with the moment at which its last task has ended."""
    number: int = 0
    """In the order of submission."""
    at_ms: float = 0.0
    """When it was submitted."""
    contended: bool = False
    """Whether another stage was under way then."""
    ran: list[tuple[str, float, float]] = field(init=False)
    """Of each task: its executor, and from when until when it had a slot."""
    left: int = field(init=False)
    """How many tasks have not ended."""

    def __post_init__(self) -> None:
        self.ran = [("", FOREVER, FOREVER)] * len(self.tasks)
        self.left = len(self.tasks)

    def waited_ms(self, slots: int) -> float:
        """Return how much later it ended than if all slots had been free for it."""
        if not self.contended:
            return 0.0
        alone = Slots(slots)
        tasks = [
            (executor, until_ms - from_ms)
            for (executor, _), (_, from_ms, until_ms) in zip(self.tasks, self.ran, strict=True)
        ]
        again = Stage(tasks, dict.fromkeys(self.speeds, 1.0))
        alone.submit(again, self.at_ms)
        alone.step()
        return max(until_ms for _, _, until_ms in self.ran) - alone.next_ms()


class Slots:
    """The slots of all executors; time passes in :meth:`step`, from event to event.

    Every slot has a core here, and no later stage changes when a task ends: that is known at once.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._planned = self._submitted = self._under_way = 0
        self._due: list[tuple[float, int, Stage]] = []
        self._free_ms: dict[str, list[float]] = {}
        """When each slot of an executor is free: a heap."""
        self._ends: list[tuple[float, int, Stage]] = []

    def submit(self, stage: Stage, at_ms: float) -> None:
        """Submit a stage at a moment to come."""
        self._planned += 1
        heappush(self._due, (at_ms, self._planned, stage))

    def next_ms(self) -> float:
        """Return when the next event is."""
        due_ms = self._due[0][0] if self._due else FOREVER
        return min(due_ms, self._next_end_ms())

    def step(self) -> None:
        """Let the next event happen; what ends goes before what begins at the same moment."""
        if not self._due or self._next_end_ms() <= self._due[0][0]:
            self._end_next()
            return
        at_ms, _, stage = heappop(self._due)
        self._submitted += 1
        stage.number, stage.at_ms = self._submitted, at_ms
        stage.contended = self._under_way > 0
        self._under_way += 1
        if stage.tasks:
            self._admit(stage, at_ms)
        else:
            self._end(stage, at_ms)

    def forget(self, executor: str) -> None:
        """Forget an executor that is gone, but for what runs there."""
        self._free_ms.pop(executor, None)

    def _next_end_ms(self) -> float:
        """Return when a task, or a stage, ends next."""
        return self._ends[0][0] if self._ends else FOREVER

    def _end_next(self) -> None:
        at_ms, _, stage = heappop(self._ends)
        self._end(stage, at_ms)

    def _end(self, stage: Stage, at_ms: float) -> None:
        self._under_way -= 1
        stage.ended(at_ms)

    def _admit(self, stage: Stage, at_ms: float) -> None:
        """Let the tasks of a stage queue."""
        last_ms = at_ms
        for place, (executor, ms) in enumerate(stage.tasks):
            if executor is None:
                executor = min(stage.speeds, key=lambda each: max(at_ms, self._free(each)[0]))
                ms /= stage.speeds[executor]
            free = self._free(executor)
            begins_ms = free[0] if free[0] > at_ms else at_ms
            ends_ms = begins_ms + ms
            heapreplace(free, ends_ms)
            stage.ran[place] = (executor, begins_ms, ends_ms)
            if ends_ms > last_ms:
                last_ms = ends_ms
        heappush(self._ends, (last_ms, stage.number, stage))

    def _free(self, executor: str) -> list[float]:
        free = self._free_ms.get(executor)
        if free is None:
            free = self._free_ms[executor] = [0.0] * self._slots
        return free


@dataclass(slots=True, eq=False)
class _Executor:
    """An executor whose running tasks share its cores evenly."""

    id: str
    at_ms: float = 0.0
    served_ms: float = 0.0
    """What each task would have got by then that ran from the start."""
    running: list[tuple[float, int, int, Stage]] = field(default_factory=list)
    """By what must have been served when each ends: a heap."""
    queue: deque[tuple[Stage, int]] = field(default_factory=deque)


class SharedCores(Slots):
    """Executors may have more slots than cores: with more tasks than cores, all are slower."""

    def __init__(self, slots: int, cores: int) -> None:
        super().__init__(slots)
        self._cores = cores
        self._executors: dict[str, _Executor] = {}
        self._anywhere: deque[tuple[Stage, int]] = deque()

    def forget(self, executor: str) -> None:
        """Forget an executor that is gone, but for what runs there."""
        known = self._executors.get(executor)
        if known is not None and not known.running:
            del self._executors[executor]

    def _next_end_ms(self) -> float:
        return min(map(self._ends_ms, self._executors.values()), default=FOREVER)

    def _end_next(self) -> None:
        executor = min(self._executors.values(), key=self._ends_ms)
        at_ms = self._ends_ms(executor)
        executor.served_ms, _, place, stage = heappop(executor.running)
        executor.at_ms = at_ms
        stage.ran[place] = (executor.id, stage.ran[place][1], at_ms)
        stage.left -= 1
        self._start(executor, at_ms)
        if not stage.left:
            self._end(stage, at_ms)

    def _admit(self, stage: Stage, at_ms: float) -> None:
        for executor in stage.speeds:
            self._known(executor)
        for place, (node, _) in enumerate(stage.tasks):
            queue = self._anywhere if node is None else self._known(node).queue
            queue.append((stage, place))
        for each in self._executors.values():
            self._start(each, at_ms)

    def _known(self, executor: str) -> _Executor:
        return self._executors.setdefault(executor, _Executor(executor))

    def _start(self, executor: _Executor, at_ms: float) -> None:
        """Fill the free slots of an executor with the tasks whose turn it is."""
        while len(executor.running) < self._slots and (queue := self._first(executor)):
            executor.served_ms = self._served_ms(executor, at_ms)
            executor.at_ms = at_ms
            stage, place = queue.popleft()
            pinned, ms = stage.tasks[place]
            if pinned is None:
                ms /= stage.speeds[executor.id]
            heappush(executor.running, (executor.served_ms + ms, stage.number, place, stage))
            stage.ran[place] = (executor.id, at_ms, FOREVER)

    def _first(self, executor: _Executor) -> deque[tuple[Stage, int]] | None:
        """Return the queue whose first task is next on an executor."""
        own, anywhere = executor.queue, self._anywhere
        if not anywhere or executor.id not in anywhere[0][0].speeds:
            return own or None
        if not own or anywhere[0][0].number <= own[0][0].number:
            return anywhere
        return own

    def _share(self, executor: _Executor) -> float:
        return min(1.0, self._cores / max(1, len(executor.running)))

    def _served_ms(self, executor: _Executor, at_ms: float) -> float:
        return executor.served_ms + (at_ms - executor.at_ms) * self._share(executor)

    def _ends_ms(self, executor: _Executor) -> float:
        if not executor.running:
            return FOREVER
        left_ms = executor.running[0][0] - executor.served_ms
        return executor.at_ms + left_ms / self._share(executor)
