"""Good input of every kind that elastream reads, small, to be damaged."""

from __future__ import annotations

import json
from typing import Any, Final

from elastream.core.decisions import Decision, line_of
from elastream.core.samples import Sample, TaskSample, sample_line
from elastream.handover.messages import (
    Abort,
    Accept,
    Commit,
    Join,
    Leave,
    Message,
    Offer,
    Ready,
    Refuse,
    Seen,
    Taken,
    members_of,
)
from elastream.handover.model import Boundary, QueryShape, Window
from elastream.model.observation import TaskId

_STEP: Final = {"work": [3, 1, 2, 4], "state": [10, 5, 0, 7], "current": [[0, 3], [3, 4]]}
_TARGET: Final = {"nodes": 3, "tau": 0.6}
_CHAIN: Final = {"sizes": [2, 3], "matrix": [[0.5, 0.5], [0.5, 0.5]], "gamma": 0.8}
_OPERATORS: Final = [
    {"name": "o1", "inputs": ["I1"], "cost": 14, "selectivity": 1},
    {
        "name": "j",
        "inputs": ["o1", "I2"],
        "kind": "join",
        "window": 10,
        "cost": 0.01,
        "selectivity": 0.1,
    },
]
_COSTS: Final = {"state_bytes": 82, "code_bytes": 300_000, "cost": 1, "resources": 1}
_REPLICATION: Final = {
    "operators": [
        {"name": "source", "service_rate": 284, "max_replicas": 1, "nodes": ["a"], **_COSTS},
        {"name": "rank", "latency_ms": [1, 0.01], "max_replicas": 2, **_COSTS},
    ],
    "streams": [{"from": "source", "to": "rank", "rate": 60}],
    "nodes": [{"name": name, "resources": 2, "speedup": 1, "spawn_ms": 500} for name in ("a", "b")],
    "links": {"delay_ms": [[0, 12], [12, 0]], "cost": [[0, 0.02], [0.02, 0]]},
    "datastore": {"delay_ms": [5, 5], "bytes_per_s": [12_500_000, 12_500_000]},
    "sync_ms": 250,
    "bounds": {"response_ms": 175, "cost": 30, "downtime_ms": 7500},
    "weights": {"response": 0.3, "cost": 0.3, "downtime": 0.4},
    "current": {"source": ["a"], "rank": ["b"]},
}

PLANS: Final[dict[str, list[dict[str, Any]]]] = {
    "single-step": [_STEP | _TARGET],
    "free-step": [_STEP | _TARGET],
    "sequence": [_STEP | {"targets": [_TARGET, {"nodes": 2, "tau": 0.5}]}],
    "transition": [_STEP | _TARGET | {"chain": _CHAIN}],
    "free-ahead": [
        _STEP | _TARGET | {"chain": _CHAIN, "past": [{"nodes": 3, "work": [1, 2, 3, 4]}]},
        _STEP | _TARGET | {"futures": [{"odds": 1, "targets": [_TARGET]}], "gamma": 0.5},
    ],
    "resilient": [
        {"load": [[14, 0], [6, 0], [0, 9]], "capacity": [1, 1], "lower_bound": [0, 0]},
        {
            "graph": {"inputs": ["I1", "I2"], "operators": _OPERATORS, "transfer_cost": 0.5},
            "capacity": [1, 1],
        },
    ],
    "replication": [_REPLICATION],
    "handover": [
        {
            "window": {"kind": "time", "length": 4, "slide": 2},
            "last_window": 1,
            "first_tuples": [4],
        },
        {
            "window": {"kind": "rows", "length": 3, "slide": 2},
            "last_window": 1,
            "first_tuples": [5],
            "arrivals": [[1, 2, 4, 7]],
        },
    ],
}
"""Problems, by the kind of plan."""

_TASK: Final = TaskId("q", 0, 0)
_SCENE: Final = {
    "loop": {"mode": "acts", "phase": "steady"},
    "executors": {"1": {"busy": 0.5}},
    "queries": {"q": {"batch": 1, "idle": False}},
    "tasks": {"q/0/0": ["1", 0.5, 100]},
    "change": None,
    "batches": [["q", 1, 2500, 300, 9]],
}
LOG: Final = "".join(
    f"{line}\n"
    for line in (
        line_of(Decision(0, None, "attach", "attached", executors=2)),
        line_of(Decision(1000, 1, "hold", "as it is", 2, 0.7, {"busiest": 0.8}, "q")),
        sample_line(Sample(2000, ("1", "2"), 2, {_TASK: TaskSample("1", 0.5, 100)}, {"q": 9.0})),
        json.dumps({"v": 2, "kind": "scene", "at_ms": 2500, "whole": True, **_SCENE}),
        sample_line(Sample(63_000, ("1", "2", "3"), 3, {_TASK: TaskSample("3", 1, 9)}, {"q": 9.0})),
        line_of(Decision(64_000, 2, "done", "scale-out done", 3, None, {"tasks_moved": 3})),
    )
)

_BOUNDARY: Final = Boundary(3, 5, (5,), (0,))
_SHAPE: Final = QueryShape("sums", Window("time", 4, 2), 1)
_SAID: Final[tuple[Message, ...]] = (
    Join("h", _SHAPE),
    Accept("h", "t"),
    Refuse("h", "no"),
    Seen("h", "t", (4,)),
    Offer("h", "t", _BOUNDARY),
    Ready("h", "t", _BOUNDARY),
    Commit("h", _BOUNDARY),
    Abort("h", "t", "gone"),
    Taken("h"),
    Leave("h", "enough"),
)
MESSAGES: Final = [members_of(message) for message in _SAID]
"""Every message of a handover."""
