"""The driver on a simulated cluster, every call done where it is asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from tests.core.builders import task

from elastream.core.application import Observed
from elastream.core.decisions import Decision
from elastream.core.driver import Controller
from elastream.core.events import Fact, Tick
from elastream.core.goal import Goal, Probe, Question, Wanted
from elastream.core.lanes import Inline
from elastream.core.learning import Learning, Learnt, Lesson, Size
from elastream.core.policy import Policy, Timeouts
from elastream.core.ports import DelayProbe, Learner, Placed, Runtime, Ticket
from elastream.core.state import Detached, Transition
from elastream.core.steady import Steady
from elastream.goals.by_hand import ByHand
from elastream.goals.schedule import Schedule
from elastream.model.errors import AlreadyAttachedError, ElastreamError, ProblemError
from elastream.model.observation import Executor, TaskId
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, simulated

POLICY = Policy(
    max_executors=4, patience=2, timeouts=Timeouts(smoothing_s=0.1), planner="single-step"
)
BUSY = 1900.0


def busy_cluster(kind: type[SimulatedCluster] = SimulatedCluster) -> SimulatedCluster:
    return kind(even_workload(8, lambda _: BUSY), ClusterSettings(executors=2))


class Bench:
    """A controller on a simulated cluster and what it logged."""

    def __init__(
        self,
        cluster: SimulatedCluster | None = None,
        policy: Policy = POLICY,
        *,
        probe: DelayProbe | None = None,
        learner: Learner | None = None,
        learning: Learning | None = None,
    ) -> None:
        self.cluster = cluster or busy_cluster()
        self.decisions: list[Decision] = []
        self.controller = simulated(
            self.cluster,
            policy,
            log=self.decisions.append,
            probe=probe,
            learner=learner,
            learning=learning,
        )

    @property
    def kinds(self) -> list[str]:
        return [decision.kind for decision in self.decisions]

    @property
    def reasons(self) -> list[str]:
        return [decision.reason for decision in self.decisions]


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.controller.detach()


def test_an_application_scales_out_by_itself(bench: Bench) -> None:
    bench.controller.start()
    bench.cluster.run_batches(12)
    assert len(bench.cluster.executors()) == 3
    assert len(set(bench.cluster.where().values())) == 3
    assert bench.kinds[:2] == ["attach", "join"]
    assert "done" in bench.kinds


def test_a_controller_starts_once(bench: Bench) -> None:
    bench.controller.start()
    with pytest.raises(AlreadyAttachedError):
        bench.controller.start()
    bench.controller.detach()
    with pytest.raises(AlreadyAttachedError):
        bench.controller.start()


def test_an_application_can_be_attached_to_again_after_detaching(bench: Bench) -> None:
    bench.controller.start().detach()
    second = Bench(bench.cluster)
    with second.controller:
        bench.cluster.run_batches(12)
    assert len(bench.cluster.executors()) == 3
    assert bench.kinds == ["attach", "join", "detach"]


def test_a_start_without_known_executors_fails_and_leaves_nothing() -> None:
    class Broken(SimulatedCluster):
        def executors(self) -> tuple[Executor, ...]:
            raise ElastreamError("no session")

    bench = Bench(busy_cluster(Broken))
    with pytest.raises(ElastreamError, match="no session"):
        bench.controller.start()
    assert bench.decisions == []


def test_a_start_without_a_monitor_fails_and_leaves_nothing() -> None:
    class Deaf(SimulatedCluster):
        def subscribe(self, reports: Callable[[Fact], None]) -> Callable[[], None]:  # noqa: ARG002
            raise ElastreamError("no events")

    bench = Bench(busy_cluster(Deaf))
    with pytest.raises(ElastreamError, match="no events"):
        bench.controller.start()
    assert bench.controller.wait(0.0)


def test_a_goal_that_makes_no_sense_now_is_refused_at_the_start() -> None:
    cluster = busy_cluster()
    cluster.advance(100)
    over = Policy(max_executors=4, goal=Schedule([(10, 2)]))
    bench = Bench(cluster, over)
    with pytest.raises(ProblemError, match=r"goal\.sizes\[0\]: 2 executors from .* is in the past"):
        bench.controller.start()
    assert bench.decisions == []


def test_detaching_leaves_the_queries_running(bench: Bench) -> None:
    with bench.controller:
        bench.cluster.run_batches(2)
    before = len(bench.decisions)
    bench.cluster.run_batches(5)
    assert bench.kinds[-1] == "detach"
    assert bench.reasons[-1] == "detached; the queries run on as they are"
    assert isinstance(bench.controller.state.phase, Detached)
    bench.controller.detach()
    assert len(bench.decisions) == before


def test_who_detaches_may_say_why(bench: Bench) -> None:
    bench.controller.start().detach("the session ends")
    assert bench.reasons[-1] == "the session ends"


def test_a_log_may_detach_the_loop(bench: Bench) -> None:
    def leave(entry: object) -> None:
        if isinstance(entry, Decision) and entry.kind == "hold":
            bench.controller.detach("seen enough")

    bench.controller.add_log(leave)
    bench.controller.start()
    bench.cluster.run_batches(3)
    assert bench.kinds == ["attach", "join", "hold", "detach"]
    assert bench.reasons[-1] == "seen enough"


def test_a_controller_that_was_never_started_can_be_detached(bench: Bench) -> None:
    bench.controller.detach()
    assert bench.decisions == []


def test_the_state_is_unknown_before_the_start(bench: Bench) -> None:
    with pytest.raises(ElastreamError, match="not been started"):
        _ = bench.controller.state


def test_requests_reach_the_loop(bench: Bench) -> None:
    bench.controller.start()
    bench.cluster.run_batches(1)
    bench.controller.move({task(0): "1"})
    bench.controller.abandon("no")
    bench.controller.scale_to(4, tau=0.5)
    assert bench.kinds[-7:] == ["hold", "move", "plan", "abandon", "scale-out", "wait", "plan"]
    assert bench.decisions[-1].figures["tau"] == 0.5


def test_waiting_ends_when_nothing_is_under_way(bench: Bench) -> None:
    bench.controller.start()
    bench.cluster.run_batches(1)
    assert bench.controller.wait(0.0)
    bench.controller.scale_to(4)
    assert not bench.controller.wait(0.0)
    bench.cluster.run_batches(12)
    assert bench.controller.wait(0.0)
    assert "done" in bench.kinds


def test_who_waits_is_let_go_by_a_detach(bench: Bench) -> None:
    bench.controller.start()
    bench.cluster.run_batches(1)
    bench.controller.scale_to(4)
    bench.controller.detach()
    assert bench.controller.wait(0.0)


def test_decisions_can_be_written_elsewhere_too_for_a_while(bench: Bench) -> None:
    bench.controller.start()
    also: list[object] = []
    remove = bench.controller.add_log(also.append)
    bench.cluster.run_batches(2)
    remove()
    remove()
    known = len(bench.decisions)
    bench.cluster.run_batches(2)
    assert [entry for entry in also if isinstance(entry, Decision)] == bench.decisions[2:known]


def test_what_the_runtime_cannot_do_becomes_a_decision() -> None:
    class Refusing(SimulatedCluster):
        def grow(self, total: int, *, timeout_s: float, ticket: Ticket) -> tuple[Executor, ...]:
            assert ticket.valid
            raise ValueError(f"no {total}\nwithin {timeout_s:g}")

    bench = Bench(busy_cluster(Refusing))
    with bench.controller:
        bench.cluster.run_batches(4)
        assert isinstance(bench.controller.state.phase, Steady)
    assert any("executors failed: ValueError: no 3 within 60" in why for why in bench.reasons)


def test_a_door_that_does_not_open_does_not_reach_the_queries() -> None:
    class Shut(SimulatedCluster):
        def place(
            self,
            query: str,
            wanted: Mapping[TaskId, str],
            *,
            lost: Sequence[str] = (),
            ticket: Ticket,
        ) -> Placed:
            assert ticket.valid
            assert not lost
            raise ElastreamError(f"{len(wanted)} moves of {query}, and the door is shut")

    bench = Bench(busy_cluster(Shut))
    with bench.controller:
        bench.cluster.run_batches(20)
    report = "the runtime did not take the moves: 4 moves of query, and the door is shut"
    assert bench.reasons.count(report) == 5
    assert "not moved in 5 tries" in next(d.reason for d in bench.decisions if d.kind == "abandon")


def test_a_warm_up_that_fails_does_not_reach_the_queries() -> None:
    class Cold(SimulatedCluster):
        def warm(self, ids: Sequence[str], *, ticket: Ticket) -> None:  # noqa: ARG002
            raise OSError(f"no job on {', '.join(ids)}")

    bench = Bench(busy_cluster(Cold))
    with bench.controller:
        bench.cluster.run_batches(12)
    assert "not warmed, going on cold: OSError: no job on 2" in bench.reasons
    assert "done" in bench.kinds


def test_a_log_that_fails_is_reported_once_in_printable_text_and_the_loop_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(_: Decision) -> None:
        raise OSError("disk\nfull of \x1b[2J")

    cluster = busy_cluster()
    with caplog.at_level(logging.ERROR), simulated(cluster, POLICY, log=full):
        cluster.run_batches(12)
    assert [record.getMessage() for record in caplog.records] == [
        r"decisions are no longer logged: OSError: disk full of \x1b[2J"
    ]
    assert len(cluster.executors()) == 3


def test_a_log_that_fails_does_not_keep_others_from_being_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(_: object) -> None:
        raise OSError("disk full")

    bench = Bench()
    with caplog.at_level(logging.CRITICAL), bench.controller:
        bench.controller.add_log(full)
        reports: list[object] = []
        bench.controller.add_log(reports.append)
        bench.cluster.run_batches(2)
    assert [each for each in reports if isinstance(each, Decision)] == bench.decisions[2:]


@dataclass(frozen=True)
class Faulty(Goal):
    """Cannot make sense of a third batch."""

    @property
    def name(self) -> str:
        return "faulty"

    def wanted(self, memory: None, observed: Observed) -> tuple[None, Wanted, tuple[Question, ...]]:
        (query,) = observed.queries.values()
        if (query.load.batch or 0) >= 2:
            raise KeyError("a fault")
        return memory, Wanted("hold", len(observed.executors), "fine"), ()


def test_a_fault_of_the_loop_detaches_it_and_the_queries_run_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(policy=replace(POLICY, goal=Faulty()))
    bench.controller.start()
    with caplog.at_level(logging.ERROR):
        bench.cluster.run_batches(6)
    assert len(caplog.records) == 1
    assert "the loop failed and detaches; the queries run on" in caplog.text
    assert isinstance(bench.controller.state.phase, Detached)
    assert bench.controller.wait(0.0)
    assert bench.decisions[-1].figures == {"failed": 1}
    before = len(bench.decisions)
    bench.controller.scale_to(4)
    bench.controller.detach()
    assert (len(bench.decisions), len(bench.cluster.executors())) == (before, 2)
    Bench(bench.cluster).controller.start().detach()


def test_a_loop_that_can_start_no_thread_any_more_leaves_and_the_queries_run_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    bench.controller.start()
    bench.cluster.run_batches(1)

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Inline, "submit", refuse)
    bench.cluster.run_batches(2)
    assert bench.controller.ended.is_set()
    assert isinstance(bench.controller.state.phase, Detached)


@dataclass(frozen=True)
class Forgetful(ByHand):
    """Cannot make sense of a change that has ended."""

    def after_change(self, memory: object, observed: Observed, *, done: bool) -> object:  # noqa: ARG002
        raise KeyError("a change")


def test_a_change_under_way_when_the_loop_fails_is_given_up_as_at_any_other_end() -> None:
    bench = Bench(policy=replace(POLICY, goal=Forgetful()))
    bench.controller.start()
    bench.cluster.run_batches(1)
    bench.controller.scale_to(4)
    bench.cluster.run_batches(12)
    assert bench.kinds[-2:] == ["abandon", "detach"]
    assert bench.decisions[-1].figures == {"failed": 1}


def test_a_loop_that_cannot_take_a_step_detaches_nonetheless_and_reports_its_failure_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> Transition:
        raise KeyError("a fault")

    failures: list[str] = []
    cluster, decisions = busy_cluster(), list[Decision]()
    controller = Controller(
        Runtime(cluster, cluster, cluster),
        POLICY,
        lambda entry: decisions.append(entry) if isinstance(entry, Decision) else None,
        ticks=False,
        on_failure=lambda: failures.append("failed"),
    )
    controller.start()
    monkeypatch.setattr("elastream.core.driver.step", fail)
    cluster.run_batches(3)
    assert (failures, controller.ended.is_set()) == (["failed"], True)
    assert isinstance(controller.state.phase, Detached)
    assert (decisions[-1].kind, decisions[-1].figures) == ("detach", {"failed": 1})


@dataclass(frozen=True)
class Probing(Goal):
    """Asks for one delay and remembers it."""

    @property
    def name(self) -> str:
        return "probing"

    def wanted(
        self, memory: object, observed: Observed
    ) -> tuple[object, Wanted, tuple[Question, ...]]:
        hold = Wanted("hold", len(observed.executors), "fine")
        return memory or "asked", hold, () if memory else (Probe((("here", "there"),)),)

    def after_answer(
        self,
        memory: object,  # noqa: ARG002
        observed: Observed,  # noqa: ARG002
        question: Question,  # noqa: ARG002
        answer: object,
    ) -> tuple[object, Wanted | None]:
        return answer, None


class Ruler:
    """All hosts are seven milliseconds apart."""

    def round_trips_ms(self, pairs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], float]:
        return dict.fromkeys(pairs, 7.0)


def test_delays_are_asked_of_who_can_measure_them() -> None:
    bench = Bench(policy=replace(POLICY, goal=Probing()), probe=Ruler())
    with bench.controller:
        bench.cluster.run_batches(1)
        assert bench.controller.state.memory == {("here", "there"): 7.0}


def test_without_anybody_to_measure_delays_the_goal_hears_so() -> None:
    bench = Bench(policy=replace(POLICY, goal=Probing()))
    with bench.controller:
        bench.cluster.run_batches(1)
    report = "the goal does not get delays between hosts: there is no way to probe hosts"
    assert report in bench.reasons


class Teacher:
    """Teaches that nothing is to be learnt."""

    def __init__(self) -> None:
        self.lessons: list[Lesson] = []

    def learn(self, lesson: Lesson, *, ticket: Ticket) -> Learnt:
        assert ticket.valid
        self.lessons.append(lesson)
        return Learnt(None, "too little state moves")


SIZES = tuple(Size(1000 * number, 1 + number % 3) for number in range(1, 7))


def test_lessons_are_asked_of_who_can_teach() -> None:
    teacher = Teacher()
    policy = replace(POLICY, planner="transition", goal=ByHand())
    bench = Bench(policy=policy, learner=teacher, learning=Learning(sizes=SIZES))
    with bench.controller:
        bench.cluster.run_batches(4)
    (lesson,) = teacher.lessons
    assert len(lesson.tasks) == 8
    assert bench.reasons.count("too little state moves") == 1


def test_without_anybody_to_teach_nothing_is_learnt() -> None:
    policy = replace(POLICY, planner="transition", goal=ByHand())
    bench = Bench(policy=policy, learning=Learning(sizes=SIZES))
    with bench.controller:
        bench.cluster.run_batches(4)
    assert "nothing learnt: there is no way to work values out" in bench.reasons


def test_an_application_of_many_tasks_rehearses_a_plan_and_goes_on() -> None:
    bench = Bench(SimulatedCluster(even_workload(1000, lambda _: 900.0)))
    with bench.controller:
        bench.cluster.run_batches(2)
    assert bench.kinds == ["attach", "join", "hold", "hold", "detach"]


def test_the_clock_of_the_loop_is_the_one_it_was_given(bench: Bench) -> None:
    bench.cluster.advance(7)
    bench.controller.start()
    assert bench.decisions[0].at_ms == 7000
    bench.controller.feed(Tick(9500))
    assert bench.controller.state.now_ms == 9500


def test_a_controller_knows_its_policy(bench: Bench) -> None:
    assert bench.controller.policy is POLICY
