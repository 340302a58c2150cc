"""What a change came to: the batch before and after it, predicted and ideal. Pure.

- *before*, *measured*: the median length of the last batches before the change was asked for, and
  of the first after it was done, the two right behind it left out.
- *fixed*: what of a batch before the change was no stage: its length less what each stage took by
  the model (:func:`elastream.model.batch.stage_length`), less the wait for slots; the median. What
  tasks without state do counts as a stage that is spread evenly over the executors that run them.
- *predicted*: what elastream logged; where it logged nothing, the fixed part and the stages as the
  model has them, with the work that tasks had before the change where they are after it.
- *ideal*: the fixed part, and the work that each stage had after the change, spread evenly over all
  slots. On a busy machine the same rows take a task longer than on an idle one.

Queries of which one batch follows upon another compete all the time: then neither figure is below
what all of them together keep an executor busy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from elastream.model.batch import stage_length
from elastream.model.observation import BatchObservation, TaskId


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """How long a batch takes, in ms."""

    before: float
    predicted: float
    measured: float
    ideal: float


@dataclass(frozen=True, slots=True)
class ReliefResult:
    """One change of one application, as one of its queries saw it."""

    shape: str
    change: tuple[int, int]
    planner: str
    slots: int
    query: str
    batch_ms: BatchFigures
    simulated_ms: float
    """How long the same batch takes on the simulated cluster, with the tasks where they were."""
    predicted_by: str
    """``elastream``, or ``model`` where elastream logged nothing."""
    state_bytes_moved: int
    executors_without_state: int
    fixed_ms: tuple[float, float]
    """The fixed part of a batch, before the change and after."""
    waited_ms: tuple[float, float]
    """The wait of a batch for slots that others held, before the change and after."""
    evenness: float
    """The stages after the change as placed, over the same work spread evenly."""
    seconds: float
    """From the request until the loop reported that the change was done."""
    machine_load: tuple[float, float]
    """Processes that wanted to run, in the mean of a minute: before the change, and after."""
    outcome: str
    """What the loop logged at the end of the change."""
    exact: bool

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries, and with what else was measured."""
        ms = self.batch_ms
        return {
            "shape": self.shape,
            "change": list(self.change),
            "planner": self.planner,
            "slots": self.slots,
            "exact": self.exact,
            "batch_ms": {
                "before": round(ms.before),
                "predicted": round(ms.predicted),
                "measured": round(ms.measured),
                "ideal": round(ms.ideal),
            },
            "state_bytes_moved": self.state_bytes_moved,
            "executors_without_state": self.executors_without_state,
            "query": self.query,
            "simulated_ms": round(self.simulated_ms),
            "predicted_by": self.predicted_by,
            "fixed_ms": [round(ms) for ms in self.fixed_ms],
            "waited_ms": [round(ms) for ms in self.waited_ms],
            "evenness": round(self.evenness, 3),
            "seconds": round(self.seconds, 1),
            "machine_load": [round(load, 1) for load in self.machine_load],
            "outcome": self.outcome,
        }


def batch_figures(
    before: Mapping[str, Sequence[BatchObservation]],
    after: Mapping[str, Sequence[BatchObservation]],
    query: str,
    slots: int,
    executors: int,
) -> BatchFigures:
    """Return the figures of a query, from the batches of all; ``slots`` are those of an executor.

    There are ``executors`` of them after the change.
    """
    fixed = median(fixed_ms(batch, slots) for batch in before[query])
    every = executors * slots
    placed: list[tuple[str, int, float]] = []
    busy: dict[str, float] = defaultdict(float)
    for name, batches in before.items():
        work, where = task_work(batches), places(after[name])
        for task, ms in work.items():
            busy[where[task]] += ms / slots
        if name == query:
            placed = [(where[task], task.operator, ms) for task, ms in work.items()]
    outside = {name: outside_work(batches) / every for name, batches in before.items()}
    share = {
        name: (sum(task_work(batches).values()) + outside_work(batches)) / every
        for name, batches in after.items()
    }
    predicted = fixed + outside[query] + _stages(placed, slots)
    ideal = fixed + share[query]
    if len(before) > 1:
        predicted = max(predicted, max(busy.values()) + sum(outside.values()))
        ideal = max(ideal, sum(share.values()))
    return BatchFigures(
        before=median(batch.duration_ms for batch in before[query]),
        predicted=predicted,
        measured=median(batch.duration_ms for batch in after[query]),
        ideal=ideal,
    )


def fixed_ms(batch: BatchObservation, slots: int) -> float:
    """Return how much of a batch was no stage, and no wait for slots of others."""
    placed = [(each.executor, each.task.operator, each.run_ms) for each in batch.tasks]
    stages_ms = _stages(placed, slots)
    if batch.outside_ms:
        stages_ms += sum(batch.outside_ms.values()) / (len(batch.outside_ms) * slots)
    return max(0.0, batch.duration_ms - stages_ms - batch.waited_ms)


def evenness(batches: Sequence[BatchObservation], slots: int, executors: int) -> float:
    """Return the stages of batches as they were placed, over their work spread evenly."""
    work, where = task_work(batches), places(batches)
    placed = [(where[task], task.operator, ms) for task, ms in work.items()]
    even = sum(work.values()) / (executors * slots)
    return _stages(placed, slots) / even if even else 1.0


def task_work(batches: Sequence[BatchObservation]) -> dict[TaskId, float]:
    """Return the mean run time of each task in a batch, in ms."""
    seen: dict[TaskId, list[float]] = defaultdict(list)
    for batch in batches:
        for each in batch.tasks:
            seen[each.task].append(each.run_ms)
    return {task: fmean(times) for task, times in seen.items()}


def outside_work(batches: Sequence[BatchObservation]) -> float:
    """Return the mean run time of all tasks without state in a batch, in ms."""
    return fmean(sum(batch.outside_ms.values()) for batch in batches)


def places(batches: Sequence[BatchObservation]) -> dict[TaskId, str]:
    """Return where each task ran last."""
    return {each.task: each.executor for batch in batches for each in batch.tasks}


def bytes_moved(before: Sequence[BatchObservation], after: Sequence[BatchObservation]) -> int:
    """Return the state of the tasks that ran elsewhere after than before."""
    was = places(before)
    return sum(each.state_bytes for each in after[0].tasks if was.get(each.task) != each.executor)


def _stages(placed: Sequence[tuple[str, int, float]], slots: int) -> float:
    """Return how long all stages take, one after the other: tasks by executor, stage and work."""
    stages: dict[int, list[tuple[str, float]]] = defaultdict(list)
    for executor, stage, ms in placed:
        stages[stage].append((executor, ms))
    every = {executor: slots for executor, *_ in placed}
    return sum(stage_length(tasks, every) for tasks in stages.values())
