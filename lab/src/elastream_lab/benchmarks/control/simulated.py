"""The loop at scale: how long a step and a plan take on a simulated cluster of growing size.

The real loop (every step, every plan, every line of the log) drives a simulated application through
a load that rises by a quarter and falls to three quarters, so that it scales out and in. CPU time
is measured: steps and plans wait for nothing, and other work on the machine counts little. Each
size runs in a process of its own, whose memory is measured. What the calls into Spark's JVM would
cost at such sizes is measured on a real session next to it
(:mod:`elastream_lab.benchmarks.control.jvm`).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

from elastream.core.decision_log import DecisionLog
from elastream.core.events import (
    Action,
    Answered,
    Cancel,
    Event,
    Grow,
    Log,
    Place,
    Plan,
    RecordSample,
    Rehearse,
    Release,
    Tick,
    Warm,
)
from elastream.core.goal import Failure
from elastream.core.policy import Movement, Policy, Timeouts
from elastream.core.ports import Ticket
from elastream.core.routes import rehearse, route
from elastream.core.scenes import RecordScene, take_scene, with_scene_if_due
from elastream.core.step import start_loop, step
from elastream.goals.utilisation import Utilisation
from elastream.model.checks import count
from elastream.model.errors import ElastreamError
from elastream.testing import (
    ClusterSettings,
    SimulatedCluster,
    SimulatedTask,
    Workload,
    rate_steps,
)


@dataclass(frozen=True, slots=True)
class ControlSize:
    """How large the application is; checked when made."""

    executors: int
    tasks: int
    queries: int
    operators: int = 1
    """With state, of each query; they are its stages."""

    def __post_init__(self) -> None:
        count("executors", self.executors, least=2, most=10_000)
        count("queries", self.queries, least=1, most=1000)
        count("operators", self.operators, least=1, most=20)
        count("tasks", self.tasks, least=self.queries * self.operators, most=1_000_000)


SIZES: Final = (
    ControlSize(10, 200, 1),
    ControlSize(50, 1000, 5),
    ControlSize(100, 2000, 10),
    ControlSize(300, 6000, 20),
    ControlSize(1000, 20_000, 50),
    ControlSize(1000, 20_000, 50, 3),
)
_SECONDS: Final = 400.0
"""Of the simulated application."""
_LOAD: Final = {0.0: 1.0, 100.0: 1.25, 250.0: 0.75}
"""The load from each second on, as a part of that at first."""
_TRIGGER_MS: Final = 5000.0
"""For each operator of a query: its stages wait for those of others, one after another."""
_TARGET: Final = 0.6
"""Utilisation at first, and what the goal keeps."""


@dataclass(frozen=True, slots=True)
class ControlRow:
    """What one size came to."""

    executors: int
    tasks: int
    queries: int
    operators: int
    step_median_ms: float
    step_p99_ms: float
    step_worst_ms: float
    plan_s: float
    """The longest plan."""
    plans: tuple[str, ...]
    """Of each plan: its status and its gap."""
    memory_mb: float
    """Peak of the whole process."""
    decision_log_bytes_per_batch: float
    batches: int
    changes: int
    tasks_moved: int

    def as_json(self) -> dict[str, Any]:
        """Return it in the names of the run summaries, and with what else was measured."""
        return {
            "executors": self.executors,
            "tasks": self.tasks,
            "queries": self.queries,
            "operators": self.operators,
            "step_ms": {
                "median": round(self.step_median_ms, 2),
                "p99": round(self.step_p99_ms, 2),
                "worst": round(self.step_worst_ms, 2),
            },
            "plan_s": round(self.plan_s, 3),
            "plans": list(self.plans),
            "memory_mb": round(self.memory_mb, 1),
            "decision_log_bytes_per_batch": round(self.decision_log_bytes_per_batch),
            "batches": self.batches,
            "changes": self.changes,
            "tasks_moved": self.tasks_moved,
        }


def measured_apart(size: ControlSize) -> ControlRow:
    """Measure one size in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(asdict(size)),
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise ElastreamError(f"{size.executors} executors: {last[0]}")
    fields = json.loads(ended.stdout)
    return ControlRow(**{**fields, "plans": tuple(fields["plans"])})


def measured(size: ControlSize) -> ControlRow:
    """Measure one size in this process."""
    with tempfile.TemporaryDirectory(prefix="elastream-control-") as name:
        return _Run(size, Path(name) / "decisions.jsonl").row()


class _Run:
    """The loop on a simulated cluster, each of its steps and plans timed, in CPU time."""

    def __init__(self, size: ControlSize, log: Path) -> None:
        self._size = size
        self._log = DecisionLog(log)
        self._step_ms: list[float] = []
        self._plan_s: list[float] = []
        self._plans: list[str] = []
        self._batches = self._changes = self._moved = 0
        most = round(size.executors * 1.5)
        self._policy = Policy(
            max_executors=most,
            goal=Utilisation(target=_TARGET, hysteresis=0.1),
            patience=2,
            cooldown_s=10.0,
            timeouts=Timeouts(smoothing_s=5.0),
            movement=Movement(moves_per_batch=16),
        )
        settings = ClusterSettings(executors=size.executors, slots=most)
        self._cluster = SimulatedCluster([], settings)
        self._workloads = list(_workloads(size))
        self._state, instructions = start_loop(self._policy, self._cluster.executors(), now_ms=0)
        self._follow(instructions)
        self._cluster.subscribe(self._feed)

    def row(self) -> ControlRow:
        """Let the application run, and return what was seen."""
        apart_s = _TRIGGER_MS * self._size.operators / 1000 / self._size.queries
        for number, workload in enumerate(self._workloads):
            self._begin(workload, number)
            self._pass(apart_s)
        while self._cluster.now_ms < 1000 * _SECONDS:
            self._pass(1.0)
        ordered = sorted(self._step_ms)
        size = self._size
        return ControlRow(
            executors=size.executors,
            tasks=size.tasks,
            queries=size.queries,
            operators=size.operators,
            step_median_ms=median(ordered),
            step_p99_ms=ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))],
            step_worst_ms=ordered[-1],
            plan_s=max(self._plan_s, default=0.0),
            plans=tuple(self._plans),
            memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            decision_log_bytes_per_batch=self._log.path.stat().st_size / max(1, self._batches),
            batches=self._batches,
            changes=self._changes,
            tasks_moved=self._moved,
        )

    def _begin(self, workload: Workload, number: int) -> None:
        """Start a query; its tasks are dealt to all executors, on from where the last ones were."""
        self._cluster.begin_query(workload)
        names = [executor.id for executor in self._cluster.executors()]
        first = number * len(workload.tasks)
        places = {
            task: names[(first + place) % len(names)]
            for place, task in enumerate(workload.task_ids)
        }
        self._cluster.place(workload.name, places, ticket=Ticket())

    def _pass(self, seconds: float) -> None:
        self._batches += len(self._cluster.advance(seconds))
        self._feed(Tick(round(self._cluster.now_ms)))

    def _feed(self, event: Event) -> None:
        began = time.process_time()
        self._state, instructions = with_scene_if_due(self._state, step(self._state, event))
        self._step_ms.append(1000 * (time.process_time() - began))
        self._follow(instructions)

    def _follow(self, instructions: tuple[Any, ...]) -> None:
        for instruction in instructions:
            match instruction:
                case Log(decision=decision):
                    self._log.append(decision)
                    if decision.kind == "done":
                        self._changes += 1
                        self._moved += int(decision.figures["tasks_moved"])
                case RecordSample(sample=sample):
                    self._log.append(sample)
                case RecordScene(state=state, batches=batches):
                    self._log.append(take_scene(state, batches))
                case Rehearse(tasks=tasks, nodes=nodes):
                    rehearse(tasks, nodes)
                case Cancel():
                    pass
                case action:
                    self._feed(Answered(action.ticket, self._result(action)))

    def _result(self, action: Action) -> Any:
        ticket = Ticket()
        try:
            match action:
                case Grow(total=total):
                    return self._cluster.grow(total, timeout_s=1, ticket=ticket)
                case Warm(ids=ids):
                    return self._cluster.warm(ids, ticket=ticket)
                case Release(ids=ids):
                    return self._cluster.release(ids, ticket=ticket)
                case Place(query=query, wanted=wanted):
                    return self._cluster.place(query, wanted, ticket=ticket)
                case Plan(order=order):
                    return self._planned(order)
                case _:
                    return Failure("not here")
        except ElastreamError as error:
            return Failure(str(error))

    def _planned(self, order: Any) -> Any:
        began = time.process_time()
        found = route(order)
        self._plan_s.append(time.process_time() - began)
        plan = found.outcome
        gap = ""
        if plan.status == "feasible":
            gap = f", {plan.cost:g} bytes where {plan.lower_bound:g} are the least"
        self._plans.append(f"{plan.status}{gap}")
        return found


def _workloads(size: ControlSize) -> Iterator[Workload]:
    """Yield queries whose tasks are skewed in load and, by itself, in state."""
    dice = Random(7)
    each, more = divmod(size.tasks, size.queries)
    cores = _TARGET * size.executors / size.queries
    for number in range(size.queries):
        tasks = each + (number < more)
        weights = [dice.lognormvariate(0.0, 0.6) for _ in range(tasks)]
        totals = [sum(weights[operator :: size.operators]) for operator in range(size.operators)]
        rate = 1000.0
        yield Workload(
            tuple(
                SimulatedTask(
                    j % size.operators,
                    j // size.operators,
                    weight / totals[j % size.operators],
                    1000 * cores / rate / size.operators,
                    round(dice.lognormvariate(14.0, 1.0)),
                )
                for j, weight in enumerate(weights)
            ),
            rate_steps({second: part * rate for second, part in _LOAD.items()}),
            name=f"query {number:03}",
            trigger_ms=_TRIGGER_MS * size.operators,
            overhead_ms=50.0 + dice.random() * 100,
        )


if __name__ == "__main__":
    row = measured(ControlSize(**json.load(sys.stdin)))
    print(json.dumps(asdict(row)))
