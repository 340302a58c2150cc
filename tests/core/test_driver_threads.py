"""The driver on lanes of its own: calls that hang hold up no one, and come too late to act.

Deadlines are the test's: it says when time has passed, and when a lane looks at its clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from elastream.core.decision_log import LogEntry
from elastream.core.decisions import Decision
from elastream.core.driver import Controller
from elastream.core.events import Stuck, Tick
from elastream.core.lanes import Job, ThreadLane
from elastream.core.policy import Policy
from elastream.core.ports import Placed, Runtime, Ticket
from elastream.core.state import Detached
from elastream.goals.by_hand import ByHand
from elastream.model.errors import GivenUpError
from elastream.model.observation import Executor, TaskId
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload

POLICY = Policy(max_executors=4, goal=ByHand(), planner="single-step")
PATIENCE_S = 600.0
"""How long a test waits for a thread that must come before it fails."""


class DecisionLog:
    """A log that can be waited on."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self._changed = threading.Condition()

    def __call__(self, entry: LogEntry) -> None:
        if isinstance(entry, Decision):
            with self._changed:
                self.decisions.append(entry)
                self._changed.notify_all()

    def await_reason(self, text: str) -> Decision:
        """Return the first decision whose reason contains ``text``, when it has come."""
        with self._changed:
            found = self._changed.wait_for(lambda: self._found(text), PATIENCE_S)
        assert found is not None, f"not logged: {text}"
        return found

    def _found(self, text: str) -> Decision | None:
        return next((each for each in self.decisions if text in each.reason), None)


class SlowPool(SimulatedCluster):
    """Growing and placing take until the test lets them end, where the test wants that."""

    def __init__(self) -> None:
        super().__init__(even_workload(8, lambda _: 500.0), ClusterSettings(executors=2))
        self.hangs = True
        self.asked, self.may_end, self.gave_up = (threading.Event() for _ in range(3))
        self.warmed: list[str] = []

    def grow(self, total: int, *, timeout_s: float, ticket: Ticket) -> tuple[Executor, ...]:
        with self._slowly():
            return super().grow(total, timeout_s=timeout_s, ticket=ticket)

    def place(
        self,
        query: str,
        wanted: Mapping[TaskId, str],
        *,
        lost: Sequence[str] = (),
        ticket: Ticket,
    ) -> Placed:
        with self._slowly():
            return super().place(query, wanted, lost=lost, ticket=ticket)

    def warm(self, ids: Sequence[str], *, ticket: Ticket) -> None:
        super().warm(ids, ticket=ticket)
        self.warmed += ids

    @contextmanager
    def _slowly(self) -> Iterator[None]:
        if self.hangs:
            self.asked.set()
            assert self.may_end.wait(PATIENCE_S)
        try:
            yield
        except GivenUpError:
            self.gave_up.set()
            raise


class Impatient(ThreadLane):
    """A lane on which every job has passed its deadline when somebody looks."""

    def submit(self, job: Job) -> None:
        super().submit(replace(job, limit_s=-1.0))


class Threads:
    """A controller with a thread a lane, and time that the test lets pass."""

    def __init__(self, log: Callable[[LogEntry], None] | None = None) -> None:
        self.pool = SlowPool()
        self.decisions = DecisionLog()
        self.lanes: dict[str, Impatient] = {}
        runtime = Runtime(self.pool, self.pool, self.pool)
        self.controller = Controller(
            runtime,
            POLICY,
            log or self.decisions,
            lanes=self._lane,
            clock=lambda: self.pool.now_ms / 1000,
            ticks=False,
        )
        if log is not None:
            self.controller.add_log(self.decisions)
        self.controller.start()

    def hang(self) -> None:
        """Let a request for executors hang."""
        self.controller.scale_to(3)
        assert self.pool.asked.wait(PATIENCE_S)
        self.pool.asked.clear()

    def overdue(self) -> None:
        """Let so much time pass that the loop gives up, and the lane as well."""
        now_ms = self.controller.state.now_ms or 0
        self.controller.feed(Tick(now_ms + round(1000 * POLICY.timeouts.action_s) + 1))
        self.lanes["elastream act"].look()

    def end(self) -> None:
        self.pool.may_end.set()
        self.controller.detach()

    def _lane(self, name: str, stuck: Callable[[str, float, bool], None]) -> Impatient:
        self.lanes[name] = Impatient(name, stuck)
        return self.lanes[name]


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads()
    yield threads
    threads.end()


def test_batches_pass_while_executors_are_awaited(threads: Threads) -> None:
    threads.pool.run_batches(1)
    threads.hang()
    threads.pool.run_batches(3)
    threads.decisions.await_reason("executors not ready after 3 s")
    threads.pool.may_end.set()
    threads.decisions.await_reason("tasks move, in")
    assert len(threads.pool.executors()) == 3
    assert threads.pool.warmed == ["2"]


def test_a_request_for_executors_that_hangs_is_given_up_and_the_loop_goes_on(
    threads: Threads,
) -> None:
    threads.hang()
    threads.overdue()
    threads.decisions.await_reason("scale-out given up: no answer about executors in 300 s")
    assert threads.decisions.await_reason("has not come back").kind == "stuck"
    threads.pool.hangs = False
    threads.controller.scale_to(4)
    threads.decisions.await_reason("scale-out from 2 to 4 executors done")
    assert threads.controller.wait(PATIENCE_S)
    assert len(threads.pool.executors()) == 4


def test_a_call_that_wakes_up_after_it_was_given_up_changes_nothing(threads: Threads) -> None:
    threads.hang()
    threads.overdue()
    threads.pool.may_end.set()
    assert threads.pool.gave_up.wait(PATIENCE_S)
    assert threads.decisions.await_reason("came back after").kind == "stuck"
    assert len(threads.pool.executors()) == 2


def test_a_call_that_wakes_up_after_detaching_changes_nothing(threads: Threads) -> None:
    threads.hang()
    threads.lanes["elastream act"].look()
    threads.controller.detach()
    threads.pool.may_end.set()
    assert threads.pool.gave_up.wait(PATIENCE_S)
    assert len(threads.pool.executors()) == 2
    assert threads.pool.warmed == []
    assert isinstance(threads.controller.state.phase, Detached)
    assert threads.decisions.await_reason("detached").kind == "detach"
    assert threads.decisions.decisions[-1].kind == "detach"


def test_moves_that_wake_up_after_detaching_are_not_asked_for(threads: Threads) -> None:
    threads.pool.run_batches(1)
    before = threads.pool.where()
    threads.controller.move({task: "0" for task, node in before.items() if node != "0"})
    threads.pool.run_batches(1)
    assert threads.pool.asked.wait(PATIENCE_S), "moves are asked for after a batch"
    threads.lanes["elastream place"].look()
    threads.controller.detach()
    threads.pool.may_end.set()
    assert threads.pool.gave_up.wait(PATIENCE_S)
    threads.pool.run_batches(2)
    assert threads.pool.where() == before


def test_a_runtime_on_which_too_many_calls_hang_is_asked_no_more(threads: Threads) -> None:
    for _ in range(4):
        threads.hang()
        threads.overdue()
    threads.controller.scale_to(3)
    threads.decisions.await_reason("executors failed: 4 calls have not come back")


def test_who_waits_for_a_change_is_let_go_when_it_ends(threads: Threads) -> None:
    threads.hang()
    assert not threads.controller.wait(0.0)
    rested: list[bool] = []
    waiter = threading.Thread(target=lambda: rested.append(threads.controller.wait(PATIENCE_S)))
    waiter.start()
    threads.pool.may_end.set()
    waiter.join(PATIENCE_S)
    assert rested == [True]
    assert len(threads.pool.executors()) == 3


def test_who_has_waited_for_a_change_finds_its_end_in_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elastream.core.driver._DRAIN_S", PATIENCE_S)
    may_write, report = threading.Event(), DecisionLog()

    def slow(entry: LogEntry) -> None:
        if isinstance(entry, Decision) and "done" in entry.reason:
            threading.Timer(0.2, may_write.set).start()
            assert may_write.wait(PATIENCE_S)
        report(entry)

    threads = Threads(slow)
    threads.pool.hangs = False
    threads.controller.scale_to(3)
    assert threads.controller.wait(PATIENCE_S)
    assert "scale-out from 2 to 3 executors done" in report.decisions[-1].reason
    threads.end()


def test_a_log_that_hangs_holds_up_nobody() -> None:
    hanging, may_end = threading.Event(), threading.Event()

    def slow(_: object) -> None:
        if not hanging.is_set():
            hanging.set()
            assert may_end.wait(PATIENCE_S)

    threads = Threads(slow)
    assert hanging.wait(PATIENCE_S)
    threads.pool.hangs = False
    threads.controller.scale_to(3)
    assert threads.controller.wait(PATIENCE_S)
    assert len(threads.pool.executors()) == 3
    threads.lanes["elastream log"].look()
    threads.decisions.await_reason("writing the log has not come back")
    threads.decisions.await_reason("scale-out from 2 to 3 executors done")
    may_end.set()
    threads.end()


def test_time_passes_by_itself() -> None:
    pool, report = SlowPool(), DecisionLog()
    hasty = replace(POLICY, timeouts=replace(POLICY.timeouts, grow_s=0.001, action_s=0.001))
    with Controller(Runtime(pool, pool, pool), hasty, report) as controller:
        controller.scale_to(3)
        report.await_reason("scale-out given up: no answer about executors")
        pool.may_end.set()
        assert pool.gave_up.wait(PATIENCE_S)


@pytest.mark.parametrize("set_s", [-3600.0, 3600.0])
def test_time_passes_as_before_when_the_clock_is_set(set_s: float) -> None:
    pool, reports, shift_s = SlowPool(), DecisionLog(), [0.0]
    runtime = Runtime(pool, pool, pool)
    with Controller(runtime, POLICY, reports, wall=lambda: time.time() + shift_s[0]) as controller:
        before_ms = controller.state.now_ms or 0
        shift_s[0] = set_s
        deadline = time.monotonic() + PATIENCE_S
        while abs(controller.state.wall_ahead_ms) < 1_000_000:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        passed_ms = (controller.state.now_ms or 0) - before_ms
        assert 0 <= passed_ms < 1000 * PATIENCE_S
        assert abs(controller.state.wall_ahead_ms - 1000 * set_s) < 1000 * PATIENCE_S


def test_events_of_many_threads_are_taken_in_one_after_the_other(threads: Threads) -> None:
    def tell(number: int) -> None:
        for each in range(50):
            threads.controller.feed(Stuck(0, f"call {number}.{each}", 1.0))

    tellers = [threading.Thread(target=tell, args=(number,)) for number in range(8)]
    for teller in tellers:
        teller.start()
    for teller in tellers:
        teller.join(PATIENCE_S)
    threads.controller.scale_to(2)
    threads.decisions.await_reason("asked for")
    decisions = [
        each.reason.split(" has")[0] for each in threads.decisions.decisions if each.kind == "stuck"
    ]
    assert sorted(decisions) == sorted(f"call {n}.{each}" for n in range(8) for each in range(50))
    for number in range(8):
        own = [each for each in decisions if each.startswith(f"call {number}.")]
        assert own == [f"call {number}.{each}" for each in range(50)], "each thread's in order"
