"""Breaking things: each kind of fault, done to a running application from outside."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from elastream.model.errors import ElastreamError
from elastream_lab.campaign.child import Child
from elastream_lab.campaign.folders import Folders
from elastream_lab.campaign.marked_processes import executors, jvm_of, signalled
from elastream_lab.campaign.scenario import EXECUTOR_FAULTS, STORE_FAULTS, Fault, Scenario
from elastream_lab.campaign.small_store import SmallStore

_STEP_S: Final = 60.0
_GAP_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one fault."""

    fault: Fault
    reached: bool
    """Whether its phase came."""
    landed: bool
    """Whether it was still that phase when it began."""
    what: str
    """What was done, or why nothing was."""


@dataclass
class Breaker:
    """Breaks what a scenario says, and remembers what it broke."""

    scenario: Scenario
    folders: Folders
    mark: str
    store: SmallStore | None
    killed: list[str] = field(default_factory=list)
    """Executors that were killed while the loop knew them and had not asked them to leave."""
    applications: set[int] = field(default_factory=set)
    """Those in which a JVM was killed, an executor's or the driver's."""

    def __post_init__(self) -> None:
        seed = f"{self.scenario.seed}/{self.scenario.number}/victims"
        self._dice = random.Random(seed)  # noqa: S311 - no secret

    def do(self, fault: Fault, child: Child) -> str:
        """Break it, wait until it is over, and say what was done."""
        if fault.kind in EXECUTOR_FAULTS:
            return self._executor(fault, child)
        if fault.kind in STORE_FAULTS:
            return self._store(fault, child)
        acts: dict[str, Callable[[Fault, Child], str]] = {
            "kill driver": self._driver,
            "kill JVM": self._jvm,
            "fail query": self._query,
            "foreign query": self._foreign,
            "clock jump": self._clock,
        }
        return acts[fault.kind](fault, child)

    def _executor(self, fault: Fault, child: Child) -> str:
        processes, report = executors(self.mark), child.reported
        known = [name for name in report.executors if name in processes]
        if not known:
            return "no executor was there"
        victim = self._dice.choice(known)
        if fault.kind == "stop executor":
            signalled(processes[victim], signal.SIGSTOP)
            time.sleep(fault.seconds)
            signalled(processes[victim], signal.SIGCONT)
            return f"executor {victim} stood still for {fault.seconds} s"
        leaving = victim in report.leaving
        if not signalled(processes[victim], signal.SIGKILL):
            return f"executor {victim} had ended by itself"
        self.applications.add(child.number)
        if not leaving:
            self.killed.append(victim)
        return f"executor {victim} was killed" + (", which was about to leave" if leaving else "")

    def _store(self, fault: Fault, child: Child) -> str:
        if self.store is None:
            return "left out: no file system can be mounted here"
        failures = len(child.reported.failures)
        try:
            with self.store.faulty(fault.kind):
                child.until(lambda report: len(report.failures) > failures, fault.seconds)
        except ElastreamError as error:
            return str(error)
        return f"{fault.kind} for up to {fault.seconds} s"

    def _driver(self, _: Fault, child: Child) -> str:
        child.kill()
        self.applications.add(child.number)
        return f"the driver was killed in phase {child.reported.phase}"

    def _jvm(self, _: Fault, child: Child) -> str:
        pid, phase = jvm_of(self.mark), child.reported.phase
        if pid is None or not signalled(pid, signal.SIGKILL):
            return "no JVM was there"
        self.applications.add(child.number)
        child.wait(5 * _STEP_S)
        return f"the JVM of the driver was killed in phase {phase}"

    def _query(self, _: Fault, child: Child) -> str:
        name = self._dice.choice(self.scenario.queries).name
        failures = len(child.reported.failures)
        self.folders.failing(name).touch()
        came = child.until(lambda report: len(report.failures) > failures, _STEP_S)
        self.folders.failing(name).unlink(missing_ok=True)
        return f"{name} failed" if came else f"{name} had no batch to fail in"

    def _foreign(self, fault: Fault, child: Child) -> str:
        child.ask("come")
        time.sleep(fault.seconds)
        child.ask("go")
        time.sleep(_GAP_S)
        return "queries of others came and went"

    def _clock(self, fault: Fault, child: Child) -> str:
        child.ask("jump", seconds=fault.seconds)
        return f"the clock jumped by {fault.seconds:g} s"
