"""What holds whatever happens: accidents in any order, on a simulated cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.core.harness import Harness

from elastream.core.events import (
    AbandonRequested,
    BatchObserved,
    Log,
    MoveRequested,
    Plan,
    RecordSample,
    ScaleRequested,
    Stuck,
)
from elastream.core.goal import Goal
from elastream.core.migrator.moving import Moving
from elastream.core.policy import Movement, Planner, Policy, Timeouts
from elastream.core.ports import Ticket
from elastream.core.steady import Steady
from elastream.goals.by_hand import ByHand
from elastream.goals.utilisation import Utilisation
from elastream.model.observation import TaskId
from elastream.testing import ClusterSettings, SimulatedCluster, SimulatedTask, Workload

NAMES = ("a", "b", "c")
GOALS: tuple[Goal, ...] = (
    Utilisation(),
    Utilisation(keep_triggers=True),
    Utilisation(target=0.5, hysteresis=0.05),
)


def policy_with(*, min_executors: int, max_executors: int, spares: int, **more: Any) -> Policy:
    """A policy with as many of the spares as there is room for."""
    spares = min(spares, max_executors - min_executors)
    return Policy(min_executors=min_executors, max_executors=max_executors, spares=spares, **more)


policies = st.builds(
    policy_with,
    spares=st.sampled_from([0, 1, 2]),
    min_executors=st.integers(0, 2),
    max_executors=st.integers(2, 6),
    goal=st.sampled_from(GOALS),
    patience=st.integers(1, 2),
    cooldown_s=st.sampled_from([0.0, 3.0]),
    tau=st.sampled_from([0.0, 0.2, 0.5]),
    planner=st.sampled_from(["single-step", "free-step", "transition"]),
    standbys=st.sampled_from([0, 1]),
    movement=st.builds(
        Movement,
        moves_per_batch=st.none() | st.integers(1, 3),
        bytes_per_batch=st.none() | st.integers(500, 3000),
        copy_ahead=st.sampled_from([True, True, False]),
        copy_least_bytes=st.sampled_from([0, 500]),
        copy_bytes=st.sampled_from([1, 1500, 1 << 30]),
        standby_bytes=st.sampled_from([1000, 1 << 30]),
        warm_up=st.booleans(),
        tries=st.integers(1, 4),
        replans=st.integers(0, 3),
    ),
    timeouts=st.builds(
        Timeouts,
        smoothing_s=st.sampled_from([0.1, 3.0]),
        idle_s=st.sampled_from([3.0, 20.0, 1e6]),
        copy_s=st.sampled_from([5.0, 100.0]),
        action_s=st.sampled_from([70.0, 300.0]),
    ),
    advise_only=st.sampled_from([False, False, False, True]),
)


@st.composite
def tasks_of(draw: st.DrawFn) -> tuple[SimulatedTask, ...]:
    number = draw(st.integers(1, 8))
    weights = draw(st.lists(st.integers(1, 5), min_size=number, max_size=number))
    return tuple(
        SimulatedTask(0, j, w / sum(weights), 1.0, draw(st.integers(0, 2000)))
        for j, w in enumerate(weights)
    )


class Accidents(RuleBasedStateMachine):
    """The harness checks every instruction as it comes; here is what else must hold."""

    run: Harness

    @initialize(
        queries=st.lists(tasks_of(), min_size=1, max_size=3),
        policy=policies,
        number=st.integers(1, 6),
        outside=st.sampled_from([0.0, 0.3]),
        copy_s=st.none() | st.just(0.0),
    )
    def begin(
        self,
        queries: list[tuple[SimulatedTask, ...]],
        policy: Policy,
        number: int,
        outside: float,
        copy_s: float | None,
    ) -> None:
        self.rates = dict.fromkeys(NAMES, 1000.0 / len(queries))
        self.workloads = {
            name: Workload(
                tasks,
                lambda _, name=name: self.rates[name],  # type: ignore[misc]
                name=name,
                outside_row_ms=outside,
                trigger_ms=1000.0 * (1 + place),
                most_rows=3000,
            )
            for place, (name, tasks) in enumerate(zip(NAMES, queries, strict=False))
        }
        cluster = SimulatedCluster(
            list(self.workloads.values()),
            ClusterSettings(executors=number, slots=8, copy_s=copy_s),
        )
        self.run = Harness(cluster, policy)

    @rule(number=st.integers(1, 4))
    def batches_pass(self, number: int) -> None:
        for _ in range(number):
            before = len(self.run.decisions)
            if self.run.cluster.run_batch(most_s=20) is not None:
                assert len(self.run.decisions) > before, "every batch has its line in the log"

    @rule(number=st.integers(1, 30))
    def time_passes(self, number: int) -> None:
        self.run.seconds(number, answering=False)

    @rule(name=st.sampled_from(NAMES), rate=st.sampled_from([0.0, 0.0, 300.0, 1000.0, 2500.0]))
    def load_changes(self, name: str, rate: float) -> None:
        self.rates[name] = rate

    @rule()
    def all_becomes_idle(self) -> None:
        self.rates = dict.fromkeys(NAMES, 0.0)

    @precondition(lambda self: self.run.pending)
    @rule()
    def runtime_answers(self) -> None:
        self.run.answer()

    @precondition(lambda self: self.run.pending)
    @rule()
    def runtime_fails(self) -> None:
        self.run.fail("by accident")

    @precondition(lambda self: len(self.run.cluster.executors()) > 1)
    @rule(which=st.integers(0, 5), at_once=st.booleans())
    def executor_dies(self, which: int, at_once: bool) -> None:
        alive = self.run.cluster.executors()
        self.run.cluster.kill(alive[which % len(alive)].id, at_once=at_once)

    @rule()
    def executor_comes_unasked(self) -> None:
        number = len(self.run.cluster.executors()) + 1
        self.run.cluster.grow(number, timeout_s=1, ticket=Ticket())

    @rule(slots=st.integers(0, 8))
    def slots_change(self, slots: int) -> None:
        self.run.cluster.settings = replace(self.run.cluster.settings, slots=slots)

    @rule(deaf=st.sets(st.integers(0, 9), max_size=4))
    def some_moves_are_not_obeyed(self, deaf: set[int]) -> None:
        self.run.cluster.obeys = lambda task: task.partition not in deaf

    @rule(which=st.integers(0, 9), where=st.integers(0, 5))
    def task_wanders_off(self, which: int, where: int) -> None:
        tasks, alive = self._tasks(), self.run.cluster.executors()
        if tasks and alive:
            task = tasks[which % len(tasks)]
            place = {task: alive[where % len(alive)].id}
            self.run.cluster.place(task.query, place, ticket=Ticket())

    @rule(name=st.sampled_from(NAMES))
    def query_ends(self, name: str) -> None:
        if name in self.run.cluster.queries:
            self.run.cluster.end_query(name)

    @rule(name=st.sampled_from(NAMES))
    def query_starts_again(self, name: str) -> None:
        if name in self.workloads and name not in self.run.cluster.queries:
            self.run.cluster.begin_query(self.workloads[name])

    @rule(name=st.sampled_from(NAMES))
    def query_restarts(self, name: str) -> None:
        self.query_ends(name)
        self.query_starts_again(name)

    @rule(at_once=st.booleans())
    def placements_take_their_time(self, at_once: bool) -> None:
        self.run.places_at_once = at_once

    @rule(number=st.integers(0, 8), tau=st.none() | st.just(0.7))
    def person_asks_for_executors(self, number: int, tau: float | None) -> None:
        self.run.feed(ScaleRequested(number, tau))

    @rule(where=st.integers(0, 5))
    def person_asks_for_a_placement(self, where: int) -> None:
        alive = self.run.cluster.executors()
        if alive:
            target = alive[where % len(alive)].id
            self.run.feed(MoveRequested(dict.fromkeys(self._tasks(), target)))

    @rule()
    def person_gives_up(self) -> None:
        self.run.feed(AbandonRequested("enough"))

    @rule()
    def a_call_hangs(self) -> None:
        self.run.feed(Stuck(round(self.run.cluster.now_ms), "a call", 31.0))

    @precondition(lambda self: self.run.last_batch is not None)
    @rule()
    def batch_is_replayed(self) -> None:
        if self.run.last_batch is not None:
            assert self.run.feed(BatchObserved(self.run.last_batch)) == ()

    def _tasks(self) -> list[TaskId]:
        queries = self.run.cluster.queries.values()
        return [task for query in queries for task in query.workload.task_ids]

    def teardown(self) -> None:
        if not hasattr(self, "run"):
            return
        assert self.run.replayed() == self.run.instructions, (
            "the same events lead to the same instructions"
        )
        self._ends_well()

    def _ends_well(self) -> None:
        """After the last accident everything settles, and what was planned is reached."""
        run = self.run
        run.cluster.settings = replace(run.cluster.settings, slots=20)
        run.cluster.obeys = lambda _: True
        run.places_at_once = True
        self.rates = dict.fromkeys(NAMES, 200.0)
        for name in self.workloads:
            self.query_starts_again(name)
        run.seconds(400)
        before = len(run.instructions)
        run.seconds(30)
        quiet = [
            i
            for entry in run.instructions[before:]
            for i in entry
            if not isinstance(i, Log | Plan | RecordSample)
        ]
        story = "\n".join(f"{d.at_ms} {d.kind} {d.query} {d.reason}" for d in run.decisions[-60:])
        assert quiet == [], f"a constant load leads to no change for ever\n{story}"
        assert isinstance(run.state.phase, Steady) or run.policy.advise_only
        alive = len(run.cluster.executors())
        if not run.policy.advise_only:
            assert max(1, run.policy.min_executors) <= alive <= run.policy.max_executors
        assert set(run.state.queries) == set(run.cluster.queries)
        assert run.state.all_executors == run.cluster.executors()
        if not run.policy.advise_only:
            spares, room = run.state.spares, run.policy.max_executors - len(run.state.alive)
            assert len(spares) == min(run.policy.spares, room)
            assert not run.policy.movement.warm_up or all(spare.warm for spare in spares)


TestAccidents = Accidents.TestCase
TestAccidents.settings = settings(
    max_examples=max(6, settings().max_examples // 20), stateful_step_count=30
)


@given(
    queries=st.lists(tasks_of(), min_size=1, max_size=2),
    planner=st.sampled_from(["single-step", "free-step"]),
    moves_per_batch=st.integers(1, 3),
    target=st.integers(1, 5),
    deaf_s=st.integers(0, 3),
)
@settings(max_examples=max(8, settings().max_examples // 20))
def test_once_moves_are_obeyed_the_placement_becomes_the_plan(
    queries: list[tuple[SimulatedTask, ...]],
    planner: Planner,
    moves_per_batch: int,
    target: int,
    deaf_s: int,
) -> None:
    policy = Policy(
        max_executors=5,
        planner=planner,
        movement=Movement(moves_per_batch=moves_per_batch, tries=9),
        goal=ByHand(),
    )
    workloads = [
        Workload(tasks, lambda _: 500.0, name=name)
        for name, tasks in zip(NAMES, queries, strict=False)
    ]
    run = Harness(SimulatedCluster(workloads, ClusterSettings(executors=2)), policy)
    run.seconds(5)
    run.feed(ScaleRequested(target))
    while run.pending:
        run.answer()
    phase = run.state.phase
    assert isinstance(phase, Moving | Steady), "done at once where nothing has to move"
    goal = phase.target.goal if isinstance(phase, Moving) else run.cluster.where()
    run.cluster.obeys = lambda _: False
    run.seconds(deaf_s)
    run.cluster.obeys = lambda _: True
    run.seconds(40)
    assert run.cluster.where() == goal
    assert run.kinds.count("done") == 1
    assert len(run.cluster.executors()) == target


@given(rate=st.floats(50, 5000), number=st.integers(1, 8), keep=st.booleans())
@settings(max_examples=12, derandomize=True)
def test_a_constant_rate_settles_and_scales_in_at_most_after_catching_up(
    rate: float, number: int, keep: bool
) -> None:
    policy = Policy(
        max_executors=8,
        patience=2,
        cooldown_s=0,
        planner="single-step",
        goal=Utilisation(keep_triggers=keep),
    )
    tasks = tuple(SimulatedTask(0, j, 1 / 24, 1.0, 100) for j in range(24))
    cluster = SimulatedCluster(Workload(tasks, lambda _: rate), ClusterSettings(executors=number))
    run = Harness(cluster, policy)
    run.batches(160)
    changes = [kind for kind in run.kinds if kind in ("scale-out", "scale-in")]
    assert changes == sorted(changes, reverse=True), "never in and out again"
    before = len(run.kinds)
    run.batches(20)
    assert set(run.kinds[before:]) == {"hold"}
