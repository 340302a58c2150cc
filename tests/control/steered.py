"""A loop on a simulated cluster, as the doors see it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from elastream import ByHand, Movement, Policy
from elastream.control.commands import Answer, answered
from elastream.core.decisions import Decision
from elastream.core.events import Request
from elastream.core.state import LoopState
from elastream.testing import SimulatedCluster, SimulatedLoop, even_workload, simulated

__all__ = ["POLICY", "Steered", "steered"]

POLICY = Policy(max_executors=4, goal=ByHand(), movement=Movement(moves_per_batch=1))


class Steered:
    def __init__(self, cluster: SimulatedCluster, loop: SimulatedLoop) -> None:
        self.cluster = cluster
        self.loop = loop
        self.over = threading.Event()
        self.commands: list[tuple[bytes, str]] = []

    @property
    def state(self) -> LoopState:
        return self.loop.state

    def request(self, event: Request) -> tuple[Decision, ...]:
        return self.loop.request(event)

    def end(self, reason: str | None = None) -> None:
        self.loop.detach(reason)
        self.over.set()

    def door(self, text: bytes, by: str) -> Answer:
        self.commands.append((text, by))
        return answered(self, text, by)

    def ask(self, by: str = "eve", **record: Any) -> Answer:
        return answered(self, json.dumps(record).encode(), by)


@contextmanager
def steered(policy: Policy = POLICY, *, rate: float = 400) -> Iterator[Steered]:
    cluster = SimulatedCluster(even_workload(8, rate))
    with simulated(cluster, policy) as loop:
        cluster.advance(5)
        yield Steered(cluster, loop)
