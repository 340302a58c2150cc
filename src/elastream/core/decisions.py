"""Decisions: what was decided, why, and on which figures. Plain values, one line of JSON each.

The first member of a line, ``v``, is the version of the format. A log also holds samples
(:mod:`elastream.core.samples`) and scenes (:mod:`elastream.core.scenes`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from elastream.core.reason_codes import code_of
from elastream.model.checks import Number, abbreviate, count, non_negative
from elastream.model.errors import ProblemError

VERSION: Final = 3
"""Version of the line format that is written."""
OLDEST_VERSION: Final = 2
"""The oldest that is read: all lines of it are as they would be written now."""

Kind = Literal[
    "attach",
    "join",
    "hold",
    "wait",
    "advise",
    "scale-out",
    "scale-in",
    "rebalance",
    "move",
    "plan",
    "copy",
    "migrate",
    "verify",
    "lost",
    "replan",
    "refuse",
    "abandon",
    "done",
    "learn",
    "spare",
    "standby",
    "partitions",
    "repartition",
    "restart",
    "stuck",
    "pause",
    "resume",
    "update",
    "leave",
    "detach",
]
"""What was decided.

``join``, ``leave``: a query takes part, or no longer. ``hold``: nothing should change. ``wait``:
something is under way and not ready. ``advise``: what would be done. ``scale-out``, ``scale-in``,
``rebalance``, ``move``: a change begins. ``plan``: the tasks to move are chosen. ``copy``: state
has travelled ahead of its tasks, or why not. ``migrate``: a mini-migration. ``verify``: what was
asked for in idle time or a pause, held against the first batch after. ``lost``: an executor is
gone. ``replan``: disturbed, planned again. ``refuse``: a request that cannot be met. ``abandon``,
``done``: how a change ended. ``learn``: what past changes taught. ``spare``: about an executor that
is kept ready. ``standby``: about copies of state that follow on other executors. ``partitions``: a
query has too few, or enough again. ``repartition``: about a pause to change their number.
``restart``: about a Real-time query that failed for a lost executor or too few slots. ``stuck``: a
call that does not come back. ``pause``, ``resume``, ``update``: somebody stopped deciding, let it
go on, or gave another policy.
"""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision."""

    at_ms: int | None
    """When, in milliseconds since the epoch: a batch's commit, or the loop's clock between two;
    ``None`` before either is known."""
    batch: int | None
    """The last batch of ``query`` before it."""
    kind: Kind
    reason: str
    """One sentence for a person."""
    executors: int
    """How many were alive, spares included."""
    utilisation: float | None = None
    """Mean over the executors; ``None`` where it was not known."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """The numbers behind the reason, by name; some are one of each query, by its name."""
    query: str | None = None
    """The query it is about; ``None`` where it is about the whole application."""

    @property
    def code(self) -> str | None:
        """The reason as one word for programs, where it has one."""
        return code_of(self.kind, self.reason)


def line_of(decision: Decision) -> str:
    """Return the decision as one line of JSON, without the line's end."""
    record: dict[str, Any] = {
        "v": VERSION,
        "at_ms": decision.at_ms,
        "query": decision.query,
        "batch": decision.batch,
        "kind": decision.kind,
        "executors": decision.executors,
        "utilisation": decision.utilisation,
        "reason": decision.reason,
        "figures": dict(decision.figures),
    }
    if (code := decision.code) is not None:
        record["code"] = code
    return json.dumps(record, allow_nan=False)


def decision_of(record: Mapping[str, Any]) -> Decision:
    """Return the decision in a record; raises ``ProblemError`` where there is none."""
    try:
        kind, reason, figures = record["kind"], record["reason"], record["figures"]
        query, batch = record["query"], record["batch"]
        at_ms, busy, executors = record["at_ms"], record["utilisation"], record["executors"]
    except KeyError as error:
        raise ProblemError(error.args[0], "is missing") from None
    if kind not in get_args(Kind):
        raise ProblemError("kind", f"{abbreviate(kind)} is not known")
    for name, value in (("reason", reason), ("query", "" if query is None else query)):
        if not isinstance(value, str):
            raise ProblemError(name, f"{abbreviate(value)} is not a text")
    if not isinstance(figures, dict):
        raise ProblemError("figures", f"{abbreviate(figures)} is not an object")
    return Decision(
        at_ms=None if at_ms is None else count("at_ms", at_ms),
        batch=None if batch is None else count("batch", batch),
        kind=kind,
        reason=reason,
        executors=count("executors", executors),
        query=query,
        utilisation=None if busy is None else non_negative("utilisation", busy),
        figures={name: _figure(f"figures.{name}", value) for name, value in figures.items()},
    )


def _figure(field: str, value: object) -> Number | dict[str, Number]:
    if isinstance(value, dict):
        return {name: non_negative(f"{field}.{name}", each) for name, each in value.items()}
    return non_negative(field, value)
