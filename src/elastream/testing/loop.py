"""The real loop on a simulated cluster: everything happens where it is asked for, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from elastream.core.application import Observed
from elastream.core.decision_log import LogEntry, LogWriter, log_writer
from elastream.core.decisions import Decision, Kind
from elastream.core.driver import Controller
from elastream.core.events import Log, RecordSample
from elastream.core.lanes import Inline, Job
from elastream.core.learning import Learning
from elastream.core.policy import Policy
from elastream.core.ports import DelayProbe, Learner, Runtime
from elastream.core.scenes import RecordScene
from elastream.model.words import pluralize
from elastream.testing.cluster import SimulatedCluster

_CHANGES: Final = ("scale-out", "scale-in", "rebalance", "move")
_QUIET: Final = ("hold", "wait")
_LOOK_S: Final = 1.0
_ACTING: Final = " act"
"""How the name of the lane ends that brings executors, warms them and takes them away."""
_COPYING: Final = " copy"
"""How the name of the lane ends that copies state."""


class _Later(Inline):
    """Runs every job when the time is over that it takes the cluster."""

    def __init__(self, cluster: SimulatedCluster, seconds: float) -> None:
        self._cluster = cluster
        self._seconds = seconds

    def submit(self, job: Job) -> None:
        """Run ``job`` after the time it takes, at once where that is none."""
        self._cluster.later(self._seconds, job.run)


def _lane(cluster: SimulatedCluster, name: str) -> Inline:
    settings = cluster.settings
    if name.endswith(_ACTING):
        return _Later(cluster, settings.pool_s)
    if name.endswith(_COPYING):
        return _Later(cluster, settings.copy_s or 0.0)
    return Inline()


class SimulatedLoop(Controller):
    """The loop of a simulated cluster, and what it has decided; made by :func:`simulated`.

    For a ``with`` block, or ``start`` and ``detach``. Persons' requests are as of an attachment:
    ``scale_to``, ``move``, ``abandon``.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        runtime: Runtime,
        policy: Policy,
        also: LogWriter,
        *,
        in_full: bool,
        **more: Any,
    ) -> None:
        self.decisions: list[Decision] = []
        """All decisions so far, holds included."""
        self._cluster = cluster
        self._in_full = in_full
        """Whether its log has samples and scenes too; they cost as much as all else."""

        def written(entry: LogEntry) -> None:
            if isinstance(entry, Decision):
                self.decisions.append(entry)
            also(entry)

        super().__init__(
            runtime,
            policy,
            written,
            lanes=lambda name, _stuck: _lane(cluster, name),
            clock=lambda: cluster.now_ms / 1000,
            wall=lambda: cluster.now_ms / 1000,
            ticks=False,
            **more,
        )

    def _write(self, instruction: Log | RecordSample | RecordScene) -> None:
        if isinstance(instruction, Log) or self._in_full or len(self._logs) > 1:
            super()._write(instruction)

    @property
    def observed(self) -> Observed:
        """What the goal sees now."""
        return self.state.observed

    @property
    def changes(self) -> list[Kind]:
        """The changes that were begun, in order: scale-out, scale-in, rebalance or move."""
        return [decision.kind for decision in self.of(*_CHANGES)]

    @property
    def story(self) -> str:
        """All but holds and waits, a line each: for the message of a test that fails."""
        return "\n".join(_line(each) for each in self.decisions if each.kind not in _QUIET)

    def of(self, *kinds: Kind) -> list[Decision]:
        """Return the decisions of these kinds, in order."""
        return [decision for decision in self.decisions if decision.kind in kinds]

    def run_until(self, kind: Kind, *, most_s: float = 600.0) -> Decision:
        """Let time pass until something of the kind is decided again, and return that.

        Raises ``AssertionError`` with the story where it is not decided in that time.
        """
        before = len(self.of(kind))
        end_ms = self._cluster.now_ms + 1000 * most_s
        while self._cluster.now_ms < end_ms:
            self._cluster.advance(_LOOK_S)
            if len(found := self.of(kind)) > before:
                return found[before]
        raise AssertionError(f"no {kind} within {most_s:g} s:\n{self.story}")


def simulated(
    cluster: SimulatedCluster,
    policy: Policy,
    *,
    log: Path | str | Callable[[Decision], None] | None = None,
    probe: DelayProbe | None = None,
    learner: Learner | None = None,
    learning: Learning | None = None,
    past: Iterable[tuple[int, float]] = (),
) -> SimulatedLoop:
    """Return the loop of the cluster, for a ``with`` block or its ``start``.

    ``log`` is as for ``attach``: a file's path, or a function. Its clock is the cluster's; what
    would take its time on a real one happens at once, but for what the settings of the cluster say
    takes longer. Hosts are probed where those say how far they are from each other, or a ``probe``
    of your own does. ``past`` is load from before the start, for a goal that looks ahead: moments
    in ms, in order, with the cores that stateful tasks kept busy then.
    """
    settings = cluster.settings
    if probe is None and settings.round_trips_ms is not None:
        probe = cluster
    copies = None if settings.copy_s is None else cluster
    runtime = Runtime(cluster, cluster, cluster, probe, learner, copies)
    in_full = log is not None and not callable(log)
    writer = log_writer(log)
    return SimulatedLoop(
        cluster, runtime, policy, writer, in_full=in_full, learning=learning, past=past
    )


def _line(decision: Decision) -> str:
    at = "" if decision.at_ms is None else f"{decision.at_ms / 1000:.0f} s"
    who = "" if decision.query is None else f"{decision.query}, "
    alive = pluralize(decision.executors, "executor")
    return f"{at:>8}  {who}{alive}, {decision.kind}: {decision.reason}"
