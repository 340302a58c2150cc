"""What holds whatever happens: accidents in any order, on a simulated cluster."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.control.harness import Harness

from elastream.control.events import (
    AbandonRequested,
    ActionFailed,
    BatchObserved,
    ExecutorsChanged,
    Log,
    MoveRequested,
    PlaceFailed,
    Plan,
    ScaleRequested,
)
from elastream.control.observation import TaskId
from elastream.control.policy import Planner, Policy
from elastream.control.state import Migrating, Steady
from elastream.simulation.cluster import ClusterSettings, SimulatedCluster
from elastream.simulation.workload import SimulatedTask, Workload

policies = st.builds(
    Policy,
    min_executors=st.integers(1, 2),
    max_executors=st.integers(2, 6),
    patience=st.integers(1, 2),
    cooldown_s=st.sampled_from([0.0, 3.0]),
    smoothing_s=st.sampled_from([0.1, 3.0]),
    tau=st.sampled_from([0.0, 0.2, 0.5]),
    planner=st.sampled_from(["single-step", "free-step"]),
    moves_per_batch=st.none() | st.integers(1, 3),
    bytes_per_batch=st.none() | st.integers(500, 3000),
    tries=st.integers(1, 4),
    replans=st.integers(0, 3),
    warm_up=st.booleans(),
    trigger_s=st.none() | st.just(1.0),
    advise_only=st.sampled_from([False, False, False, True]),
)


@st.composite
def workloads(draw: st.DrawFn) -> tuple[SimulatedTask, ...]:
    number = draw(st.integers(1, 10))
    weights = draw(st.lists(st.integers(1, 5), min_size=number, max_size=number))
    return tuple(
        SimulatedTask(TaskId(0, j), w / sum(weights), 1.0, draw(st.integers(0, 2000)))
        for j, w in enumerate(weights)
    )


class Accidents(RuleBasedStateMachine):
    """The harness checks every instruction as it comes; here is what else must hold."""

    run: Harness

    @initialize(tasks=workloads(), policy=policies, number=st.integers(1, 6))
    def begin(self, tasks: tuple[SimulatedTask, ...], policy: Policy, number: int) -> None:
        self.rate = 1000.0
        workload = Workload(tasks, lambda _: self.rate)
        self.run = Harness(
            SimulatedCluster(workload, ClusterSettings(executors=number, slots=8)), policy
        )

    @rule(number=st.integers(1, 4))
    def batches_pass(self, number: int) -> None:
        for _ in range(number):
            before = len(self.run.decisions)
            if self.run.cluster.run_batch() is not None:
                assert len(self.run.decisions) > before, "every batch has its line in the log"

    @rule(rate=st.sampled_from([0.0, 300.0, 1000.0, 2500.0, 5000.0]))
    def load_changes(self, rate: float) -> None:
        self.rate = rate

    @precondition(lambda self: self.run.pending)
    @rule()
    def runtime_answers(self) -> None:
        self.run.answer()

    @precondition(lambda self: self.run.pending)
    @rule()
    def runtime_fails(self) -> None:
        self.run.feed(ActionFailed(self.run.pending.popleft().ticket, "by accident"))

    @precondition(lambda self: len(self.run.cluster.executors()) > 1)
    @rule(which=st.integers(0, 5), heard=st.booleans())
    def executor_dies(self, which: int, heard: bool) -> None:
        alive = self.run.cluster.executors()
        self.run.cluster.kill(alive[which % len(alive)].id)
        if heard:
            self.run.feed(ExecutorsChanged(self.run.cluster.executors()))

    @rule()
    def executor_comes_unasked(self) -> None:
        self.run.cluster.grow(len(self.run.cluster.executors()) + 1, timeout_s=1)

    @rule(slots=st.integers(0, 8))
    def slots_change(self, slots: int) -> None:
        self.run.cluster.settings = replace(self.run.cluster.settings, slots=slots)

    @rule(deaf=st.sets(st.integers(0, 9), max_size=4))
    def some_moves_are_not_obeyed(self, deaf: set[int]) -> None:
        self.run.cluster.obeys = lambda task: task.partition not in deaf

    @rule(which=st.integers(0, 9), where=st.integers(0, 5))
    def task_wanders_off(self, which: int, where: int) -> None:
        tasks, alive = self.run.cluster.workload.tasks, self.run.cluster.executors()
        self.run.cluster.place({tasks[which % len(tasks)].id: alive[where % len(alive)].id})

    @rule(number=st.integers(0, 8))
    def person_asks_for_executors(self, number: int) -> None:
        self.run.feed(ScaleRequested(number))

    @rule(where=st.integers(0, 5))
    def person_asks_for_a_placement(self, where: int) -> None:
        alive = self.run.cluster.executors()
        target = alive[where % len(alive)].id
        self.run.feed(MoveRequested({task.id: target for task in self.run.cluster.workload.tasks}))

    @rule()
    def person_gives_up(self) -> None:
        self.run.feed(AbandonRequested("enough"))

    @rule()
    def placing_fails(self) -> None:
        self.run.feed(PlaceFailed("by accident"))

    @precondition(lambda self: self.run.last_batch is not None)
    @rule()
    def batch_is_replayed(self) -> None:
        if self.run.last_batch is not None:
            again = BatchObserved(self.run.last_batch, self.run.cluster.executors())
            assert self.run.feed(again) == ()

    def teardown(self) -> None:
        if not hasattr(self, "run"):
            return
        assert self.run.replayed() == self.run.told, "the same events lead to the same instructions"
        self._ends_well()

    def _ends_well(self) -> None:
        """After the last accident everything settles, and what was planned is reached."""
        run = self.run
        run.cluster.settings = replace(run.cluster.settings, slots=20)
        run.cluster.obeys = lambda _: True
        while run.pending:
            run.answer()
        phase = run.state.phase
        run.batches(20)
        if isinstance(phase, Migrating) and set(phase.goal.values()) <= run.state.alive:
            ended = next(d for d in run.decisions[::-1] if d.kind in ("done", "abandon", "replan"))
            assert ended.kind in ("done", "abandon")
        self.rate = 800.0
        run.batches(60)
        before = len(run.told)
        run.batches(15)
        quiet = [i for told in run.told[before:] for i in told if not isinstance(i, Log | Plan)]
        assert quiet == [], "a constant load leads to no change for ever"
        assert isinstance(run.state.phase, Steady) or run.policy.advise_only
        alive = len(run.cluster.executors())
        if not run.policy.advise_only:
            assert run.policy.min_executors <= alive <= run.policy.max_executors


TestAccidents = Accidents.TestCase
TestAccidents.settings = settings(max_examples=40, stateful_step_count=25, derandomize=True)


@given(
    tasks=workloads(),
    planner=st.sampled_from(["single-step", "free-step"]),
    moves_per_batch=st.integers(1, 3),
    target=st.integers(1, 5),
    deaf_batches=st.integers(0, 3),
)
@settings(max_examples=40, derandomize=True)
def test_once_moves_are_obeyed_the_placement_becomes_the_plan(
    tasks: tuple[SimulatedTask, ...],
    planner: Planner,
    moves_per_batch: int,
    target: int,
    deaf_batches: int,
) -> None:
    policy = Policy(
        max_executors=5, planner=planner, moves_per_batch=moves_per_batch, patience=10**6
    )
    run = Harness(
        SimulatedCluster(Workload(tasks, lambda _: 1000.0), ClusterSettings(executors=2)), policy
    )
    run.batches(3)
    run.feed(ScaleRequested(target))
    while run.pending:
        run.answer()
    phase = run.state.phase
    assert isinstance(phase, Migrating)
    run.cluster.obeys = lambda _: False
    run.batches(deaf_batches)
    run.cluster.obeys = lambda _: True
    run.batches(len(phase.steps) + 2)
    assert run.cluster.where() == phase.goal
    assert run.kinds.count("done") == 1
    assert len(run.cluster.executors()) == target


@given(rate=st.floats(50, 5000), number=st.integers(1, 8), trigger=st.booleans())
@settings(max_examples=12, derandomize=True)
def test_a_constant_rate_settles_and_scales_in_at_most_after_catching_up(
    rate: float, number: int, trigger: bool
) -> None:
    policy = Policy(
        max_executors=8,
        patience=2,
        cooldown_s=0,
        planner="single-step",
        trigger_s=1.0 if trigger else None,
    )
    tasks = tuple(SimulatedTask(TaskId(0, j), 1 / 24, 1.0, 100) for j in range(24))
    run = Harness(
        SimulatedCluster(Workload(tasks, lambda _: rate), ClusterSettings(executors=number)), policy
    )
    run.batches(160)
    changes = [kind for kind in run.kinds if kind in ("scale-out", "scale-in")]
    assert changes == sorted(changes, reverse=True), "never in and out again"
    before = len(run.kinds)
    run.batches(20)
    assert set(run.kinds[before:]) == {"hold"}
