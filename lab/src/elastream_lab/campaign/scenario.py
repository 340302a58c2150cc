"""One run of the campaign as data: what the application is, what is asked of it, what breaks.

A scenario says everything that is decided before the run; what the machine adds is how long things
take. The same seed and number draw the same scenario (:mod:`~elastream_lab.campaign.drawing`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

FaultKind = Literal[
    "kill executor",
    "stop executor",
    "kill driver",
    "kill JVM",
    "fail query",
    "full store",
    "read-only store",
    "slow store",
    "foreign query",
    "clock jump",
]
"""What breaks. ``kill driver`` ends the Python process at once, ``kill JVM`` the one below it.
A store is ``slow`` while its file system is frozen: whoever writes waits."""

FAULTS = get_args(FaultKind)
EXECUTOR_FAULTS = ("kill executor", "stop executor")
STORE_FAULTS = ("full store", "read-only store", "slow store")
"""They need a file system of their own for the checkpoint, so they need root."""
PHASES = ("steady", "growing", "warming", "planning", "copying", "moving", "releasing")
"""The phases of the loop in which something may break."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query of the application."""

    name: str
    shape: str
    """One of :data:`~elastream_lab.campaign.shapes.SHAPES`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that breaks."""

    kind: FaultKind
    phase: str
    """When: in this phase of the loop, after what the round asks for."""
    seconds: float
    """How long a fault lasts that does not last for ever; how far a clock jumps."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asks for: a number of executors, or with ``None`` other places for tasks."""

    executors: int | None


@dataclass(frozen=True, slots=True)
class Round:
    """Rows, a request, a fault; the next round begins when all of its rows are committed."""

    files: int
    late_rows: int
    """Rows that are hours too late."""
    request: Request | None
    fault: Fault | None


@dataclass(frozen=True, slots=True)
class PolicyDrawn:
    """What of the policy is drawn."""

    goal: str
    planner: str
    spares: int
    standbys: int
    copy_least_bytes: int
    moves_per_batch: int | None
    warm_up: bool
    tau: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run."""

    seed: int
    number: int
    queries: tuple[Query, ...]
    rounds: tuple[Round, ...]
    policy: PolicyDrawn
    executors: int
    max_executors: int
    partitions: int
    store: Literal["rocksdb", "rocksdb changelog", "hdfs"]
    maintenance_s: int
    """How often state stores look after themselves, and unload what another executor has now."""
    files_per_batch: int
    attach_to: Literal["session", "queries"]
    closes: bool
    """Whether a last row moves the watermark past all others."""

    @property
    def files(self) -> int:
        """How many files are fed, without the last row's."""
        return sum(each.files for each in self.rounds)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What breaks, in order."""
        return tuple(each.fault for each in self.rounds if each.fault is not None)

    def as_json(self) -> dict[str, Any]:
        """Return it for a file or another process."""
        return asdict(self)

    @classmethod
    def from_json(cls, text: str) -> Scenario:
        """Return what :meth:`as_json` gave, once it was written and read."""
        fields = json.loads(text)
        fields["queries"] = tuple(Query(**each) for each in fields["queries"])
        fields["rounds"] = tuple(_round(each) for each in fields["rounds"])
        fields["policy"] = PolicyDrawn(**fields["policy"])
        return cls(**fields)


def _round(fields: dict[str, Any]) -> Round:
    request, fault = fields["request"], fields["fault"]
    return Round(
        fields["files"],
        fields["late_rows"],
        None if request is None else Request(**request),
        None if fault is None else Fault(**fault),
    )
