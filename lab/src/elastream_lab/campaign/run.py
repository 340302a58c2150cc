"""One run: feed, ask, break, wait, round by round; then look at everything."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from elastream.atomic_io import write_json
from elastream.core.decision_log import read_decisions
from elastream.model.errors import ElastreamError, ProblemError
from elastream_lab.campaign import marked_processes as processes
from elastream_lab.campaign.application import JVM_GONE
from elastream_lab.campaign.asking import request_for
from elastream_lab.campaign.breaking import Breaker, Outcome
from elastream_lab.campaign.child import Child
from elastream_lab.campaign.committed import committed_files
from elastream_lab.campaign.folders import Folders
from elastream_lab.campaign.log_truth import lies
from elastream_lab.campaign.results import RunResult
from elastream_lab.campaign.rows import Row, closing_file, put, round_files
from elastream_lab.campaign.scenario import Fault, Request, Round, Scenario
from elastream_lab.campaign.shapes import SHAPES
from elastream_lab.campaign.small_store import mounted_store
from elastream_lab.campaign.verdict import left_files, left_of_killed, wrong_answers

_START_S: Final = 600.0
_CHANGE_S: Final = 600.0
_COMMIT_S: Final = 900.0
_END_S: Final = 600.0
_PHASE_S: Final = 20.0
"""How long a phase is waited for where no change is under way that might bring it."""
_TRIES: Final = 4
"""How often something is asked for that may bring the phase of a fault."""
_BETWEEN_FILES_S: Final = 0.4
_LOOK_S: Final = 0.2
_ENDS: Final = ("done", "abandon", "refuse")


def run_scenario(
    scenario: Scenario, folder: Path, say: Callable[[str], None] = lambda _: None
) -> RunResult:
    """Run a scenario in an empty folder; what is in it stays."""
    folders, began = Folders(folder), time.monotonic()
    folders.make()
    write_json(folders.scenario, scenario.as_json(), indent=1)
    with mounted_store(folders.store) as store:
        mark = uuid.uuid4().hex
        run = _Run(scenario, folders, Breaker(scenario, folders, mark, store), mark, say)
        try:
            run.go()
        except ElastreamError as error:
            run.problems.append(str(error))
        finally:
            left = processes.marked(mark)
            processes.end(left)
            processes.wait_for_end(mark, _END_S)
        run.look(time.monotonic() - began)
        if run.problems and store is not None:
            _keep(folders)
    return RunResult(
        scenario,
        tuple(run.problems),
        tuple(run.outcomes),
        tuple(left_of_killed(folders)),
        run.kinds,
        time.monotonic() - began,
    )


def _keep(folders: Folders) -> None:
    """Copy the checkpoints of a run that failed: their file system goes with the run."""
    shutil.copytree(folders.checkpoints, folders.root / "checkpoints", dirs_exist_ok=True)


@dataclass(frozen=True, slots=True)
class _Moment:
    """What an application had reported before something was asked of it."""

    over: int
    phases: Counter[str]

    @classmethod
    def of(cls, child: Child) -> _Moment:
        return cls(_over(child), Counter(child.reported.phases))


@dataclass
class _Run:
    scenario: Scenario
    folders: Folders
    breaker: Breaker
    mark: str
    say: Callable[[str], None]
    problems: list[str] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    fed: int = 0
    children: list[Child] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    """The applications that were killed."""
    kinds: dict[str, int] = field(default_factory=dict)
    finished: bool = False
    """Whether all rows were committed and all queries ended well."""

    @property
    def child(self) -> Child:
        return self.children[-1]

    def go(self) -> None:
        self._start()
        for number, this in enumerate(self.scenario.rounds):
            with self._feeding(round_files(self.scenario, number)):
                self._round(this)
            self._await_commit()
            self.say(f"round {number + 1} of {len(self.scenario.rounds)} committed")
        if self.scenario.closes:
            self._feed(closing_file(self.scenario))
        self._finish()
        self.finished = True

    def look(self, lasted_s: float) -> None:
        """Find what is wrong after this many seconds; some of it was found on the way."""
        whole = [each.number for each in self.children if each.number not in self.cut]
        names = [self.children[number].reported.application for number in whole]
        known = [name for name in names if name is not None]
        left = left_files(self.folders, self.cut, self.breaker.applications, known)
        self.problems += [f"left: {path}" for path in left]
        for each in self.children:
            self.problems += [f"left in the driver: {what}" for what in each.reported.left or ()]
        if self.finished:
            self.problems += wrong_answers(self.scenario, self.folders, self.rows)
        try:
            decisions = list(read_decisions(self.folders.log))
        except ProblemError as error:
            self.problems.append(str(error))
            return
        most = self.scenario.max_executors
        killed = self.breaker.killed
        self.problems += lies(decisions, killed, cut=len(self.cut), most=most, lasted_s=lasted_s)
        for decision in decisions:
            if decision.kind not in ("hold", "wait"):
                self.kinds[decision.kind] = self.kinds.get(decision.kind, 0) + 1

    def _start(self) -> None:
        self.children.append(Child(self.folders, len(self.children), self.mark))
        if not self.child.until(lambda report: report.ready, _START_S):
            said = self.folders.said(self.child.number).read_text(errors="replace").strip()
            last = said.splitlines()[-1:] or ["nothing"]
            raise ElastreamError(f"the application did not start; it said {last[0]}")

    def _round(self, this: Round) -> None:
        child, queries = self.child, len(self.scenario.queries)
        child.until(lambda report: report.decisions.count("join") >= queries, _CHANGE_S)
        before = _Moment.of(child)
        if this.request is not None:
            self._ask(this.request)
        if this.fault is not None:
            before = self._break(this.fault, before)
        if child.code is not None:
            self._again()
        elif this.request is not None:
            over = child.until(lambda _: _over(child) > before.over, _CHANGE_S)
            if child.code is not None:
                raise ElastreamError(f"the application ended by itself with code {child.code}")
            if not over and child.reported.phase != "steady":
                phase = child.reported.phase
                raise ElastreamError(f"a change did not end in {_CHANGE_S:g} s; phase {phase}")

    def _ask(self, request: Request) -> None:
        size = request.executors
        self.child.ask("move") if size is None else self.child.ask("scale", executors=size)

    def _break(self, fault: Fault, before: _Moment) -> _Moment:
        """Break something in its phase; return the moment before the last change was asked for.

        A change may not need the phase. Then another one is asked for, some times.
        """
        child, most = self.child, self.scenario.max_executors - self.scenario.policy.spares
        reached = self._came(fault.phase, before)
        for _ in range(_TRIES):
            request = request_for(fault.phase, child.reported.size, most)
            if reached or request is None or child.code is not None:
                break
            before = _Moment.of(child)
            self._ask(request)
            reached = self._came(fault.phase, before)
        landed = reached and child.reported.phase == fault.phase
        what = self.breaker.do(fault, child) if reached else "its phase did not come"
        self.outcomes.append(Outcome(fault, reached, landed, what))
        self.say(f"{fault.kind} in {fault.phase}: {what}")
        return before

    def _came(self, phase: str, before: _Moment) -> bool:
        """Wait for a phase as long as what was asked for is not over."""
        child, seen = self.child, before.phases[phase]
        if phase == "steady":
            return child.until(lambda report: report.phase == phase, _PHASE_S)
        child.until(
            lambda report: report.phases[phase] > seen or _over(child) > before.over, _CHANGE_S
        )
        return child.reported.phases[phase] > seen

    def _again(self) -> None:
        """Start an application that goes on where the one that was killed stopped."""
        code = self.child.wait(_END_S)
        if code not in (JVM_GONE, -9):
            raise ElastreamError(f"the application ended with code {code}")
        if code == -9:
            self.cut.append(self.child.number)
        left = processes.wait_for_end(self.mark, _END_S)
        if left:
            commands = "; ".join(" ".join(each.command)[:80] for each in left)
            raise ElastreamError(f"processes outlive their driver: {commands}")
        self._start()

    def _await_commit(self) -> None:
        """Wait until every query has committed every file."""
        deadline = time.monotonic() + _COMMIT_S
        while (behind := list(self._behind())) and time.monotonic() < deadline:
            if self.child.code is not None:
                self._again()
            time.sleep(_LOOK_S)
        if behind:
            why = self.child.reported.failures[-1:] or ["no failure was reported"]
            raise ElastreamError(f"{', '.join(behind)} did not commit all rows; {why[0]}")

    def _behind(self) -> Iterator[str]:
        for query in self.scenario.queries:
            sources = SHAPES[query.shape].sources
            try:
                committed = committed_files(self.folders.checkpoint(query.name), sources)
            except (OSError, ValueError, LookupError):  # it is being written
                committed = 0
            if committed < self.fed:
                yield query.name

    def _finish(self) -> None:
        self._await_commit()
        self.child.ask("finish")
        code = self.child.wait(_END_S)
        if code != 0:
            raise ElastreamError(f"the application did not end well: {code}")
        left = processes.wait_for_end(self.mark, _LOOK_S)
        self.problems += [f"process left: {' '.join(each.command)[:120]}" for each in left]

    def _feed(self, rows: list[Row]) -> None:
        put(self.folders.source, self.fed, rows)
        self.rows += rows
        self.fed += 1

    @contextmanager
    def _feeding(self, files: list[list[Row]]) -> Iterator[None]:
        """Feed files one by one while the block runs; the rest at once at its end."""
        done = threading.Event()

        def feed() -> None:
            for rows in files:
                self._feed(rows)
                done.wait(_BETWEEN_FILES_S)

        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            yield
        finally:
            done.set()
            feeder.join()


def _over(child: Child) -> int:
    """Return how many changes of it have ended, or were refused, by the loop or at once."""
    return sum(kind in _ENDS for kind in child.reported.decisions) + len(child.reported.refused)
