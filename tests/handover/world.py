"""A world in which a query is handed over: streams, a network that fails, sides that die."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from elastream.handover.driver import OriginDriver, TargetDriver
from elastream.handover.events import Clock, Received, Timing
from elastream.handover.ledger import Note, Side
from elastream.handover.messages import Message
from elastream.handover.origin import Serving
from elastream.handover.target import Left
from elastream.model.handover import Boundary, QueryShape, Window
from elastream.testing.handover import (
    MemoryRecord,
    SimulatedOrigin,
    SimulatedTarget,
    operator_of,
)
from elastream.testing.windows import Output, Row

TURN_MS = 100
TIMING = Timing(repeat_ms=300, patience_ms=2000, reach_ms=4000)
QUIET_TURNS = 120
"""After the streams have ended; longer than every patience together."""

Stream = Sequence[tuple[int, Row]]
"""Rows of all inputs in the order in which they come."""
Fault = Literal["lose", "repeat", "delay"]


class Crash(Exception):  # noqa: N818 - not an error: an event of the world
    pass


@dataclass
class Scenario:
    shape: QueryShape
    stream: Stream
    join: Window | None = None
    begin: int = 0
    """The target joins when so many rows have come."""
    connect_after: tuple[int, ...] = ()
    """The target hears input i only so many rows later than it connects."""
    lag: int = 0
    """The origin is so many rows behind."""
    seed: int = 0
    target_shape: QueryShape | None = None
    faults: Mapping[int, Fault] = field(default_factory=dict)
    """What happens to the n-th message sent."""
    cut_after: int | None = None
    """All messages after so many are lost."""
    crash: tuple[Side, int] | None = None
    """The side dies at its n-th effect: a message, a line of the log or a record."""
    comes_back: bool = True
    full_disk: Side | None = None


def uninterrupted(scenario: Scenario) -> list[Output]:
    operator = operator_of(scenario.shape, scenario.join)
    return [output for i, row in scenario.stream for output in operator.read(i, row)]


class Node:
    """A side, with its driver while it lives and what outlives it."""

    def __init__(self, world: World, side: Side) -> None:
        self.world, self.side = world, side
        self.records = MemoryRecord()
        self.notes: list[Note] = []
        self.effects = 0
        self.started_ms = 0
        self.lives = 0
        self.driver: OriginDriver | TargetDriver | None = None

    def start(self, make: Callable[[], OriginDriver | TargetDriver]) -> None:
        self.lives += 1
        self.started_ms = self.world.now_ms
        self.guarded(lambda: setattr(self, "driver", make()))

    def hear(self, event: Clock | Received) -> None:
        driver = self.driver
        if driver is not None:
            self.guarded(lambda: driver.hear(event))

    def guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Crash:
            self.driver = None
            self.world.died(self)

    def effect(self) -> None:
        crash = self.world.scenario.crash
        if crash is not None and crash[0] == self.side and self.effects == crash[1]:
            self.effects += 1
            raise Crash
        self.effects += 1

    def log(self, note: Note) -> None:
        self.effect()
        self.notes.append(note)

    def write(self, record: object) -> None:
        self.records.write(record)  # type: ignore[arg-type]
        self.effect()

    def read(self) -> object:
        return self.records.read()

    def send(self, message: Message) -> None:
        self.effect()
        self.world.post(self.side, message)


class World:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario, self.dice = scenario, random.Random(scenario.seed)
        self.now_ms = self.head = self.read_by_origin = self.read_by_target = self.sent = 0
        self.flying: list[tuple[int, Side, Message]] = []
        self.sides: dict[Side, Node] = {
            "origin": Node(self, "origin"),
            "target": Node(self, "target"),
        }
        for name, node in self.sides.items():
            node.records.is_full = scenario.full_disk == name
        self.origin = SimulatedOrigin(scenario.shape, scenario.join)
        self.target = SimulatedTarget(scenario.target_shape or scenario.shape, scenario.join)
        self.connected_at: int | None = None
        self.restarts: deque[tuple[int, Node]] = deque()

    def run(self) -> World:
        self.start_origin()
        quiet = 0
        while quiet < QUIET_TURNS:
            self.turn()
            ended = self.head == self.read_by_origin == len(self.scenario.stream)
            quiet = quiet + 1 if ended else 0
            if ended and self.is_settled:
                break
        return self

    def turn(self) -> None:
        self.now_ms += TURN_MS
        stream, scenario = self.scenario.stream, self.scenario
        self.head = min(len(stream), self.head + self.dice.choice((0, 1, 1, 2)))
        if self.head >= min(scenario.begin, len(stream)) and not self.sides["target"].lives:
            self.start_target()
        while self.restarts and self.restarts[0][0] <= self.now_ms:
            self.restart(self.restarts.popleft()[1])
        behind = scenario.lag if self.head < len(stream) else 0
        self.origin_reads(self.head - behind)
        self.target_reads(self.head)
        self.deliver()
        for node in self.sides.values():
            node.hear(Clock(self.now_ms - node.started_ms))

    def origin_reads(self, until: int) -> None:
        while self.sides["origin"].driver is not None and self.read_by_origin < until:
            self.origin.read(*self.scenario.stream[self.read_by_origin])
            self.read_by_origin += 1

    def target_reads(self, until: int) -> None:
        if not self.target.is_connected or self.sides["target"].driver is None:
            return
        if self.connected_at is None:
            self.connected_at = self.read_by_target = until
        after = self.scenario.connect_after or (0,) * self.scenario.shape.inputs
        for place in range(self.read_by_target, until):
            i, row = self.scenario.stream[place]
            if place >= self.connected_at + after[i]:
                self.target.read(i, row)
        self.read_by_target = until

    def post(self, sender: Side, message: Message) -> None:
        number, self.sent = self.sent, self.sent + 1
        fault = self.scenario.faults.get(number)
        cut = self.scenario.cut_after
        if fault == "lose" or (cut is not None and number >= cut):
            return
        receiver: Side = "target" if sender == "origin" else "origin"
        takes = self.dice.choice((0, 0, 1, 3)) * TURN_MS
        if fault == "delay":
            takes += self.dice.choice((5, 12, 40)) * TURN_MS
        self.flying.append((self.now_ms + takes, receiver, message))
        if fault == "repeat":
            self.flying.append((self.now_ms + takes + 15 * TURN_MS, receiver, message))

    def deliver(self) -> None:
        due = [flight for flight in self.flying if flight[0] <= self.now_ms]
        self.flying = [flight for flight in self.flying if flight[0] > self.now_ms]
        for _, receiver, message in due:
            self.sides[receiver].hear(Received(message))

    def start_origin(self) -> None:
        node = self.sides["origin"]
        node.start(
            lambda: OriginDriver(
                self.origin, self.scenario.shape, f"term {node.lives}", node,  # type: ignore[arg-type]
                send=node.send, log=node.log, timing=TIMING,
            )
        )  # fmt: skip

    def start_target(self) -> None:
        node = self.sides["target"]
        shape = self.scenario.target_shape or self.scenario.shape
        node.start(
            lambda: TargetDriver(
                self.target, shape, f"handover {node.lives}", node,  # type: ignore[arg-type]
                send=node.send, log=node.log, timing=TIMING,
            )
        )  # fmt: skip

    def died(self, node: Node) -> None:
        if node.side == "origin":
            self.origin.crash()
        if self.scenario.comes_back:
            self.restarts.append((self.now_ms + 4 * TURN_MS, node))

    def restart(self, node: Node) -> None:
        if node.side == "origin":
            self.start_origin()
            self.origin.resume()
            return
        record = node.records.record
        if record is None or record.state == "left":
            self.target.disconnect()
            self.connected_at = None
        self.start_target()

    @property
    def is_settled(self) -> bool:
        """Nothing will ever happen any more."""
        origin, target = (self.sides[side].driver for side in ("origin", "target"))
        if self.flying or self.restarts or target is None or origin is None:
            return False
        if isinstance(target.machine.phase, Left):
            return isinstance(origin.machine.phase, Serving)
        return isinstance(origin, OriginDriver) and origin.machine.is_done

    @property
    def committed(self) -> Boundary | None:
        """The truth: what the origin's record says."""
        record = self.sides["origin"].records.record
        return record.boundary if record is not None and record.state == "committed" else None
