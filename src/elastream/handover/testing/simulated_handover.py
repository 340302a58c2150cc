"""A handover in a simulated world: streams, a network that fails, sides that crash.

The machines, the drivers and the records are the real ones; streams, network, disks and the clock
are simulated, in turns of a tenth of a second. The same scenario always has the same result.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from elastream.handover.driver import OriginDriver, TargetDriver
from elastream.handover.events import Clock, Received, Timing
from elastream.handover.ledger import Note, Record, Side
from elastream.handover.messages import Message
from elastream.handover.model import Boundary, QueryShape, Window
from elastream.handover.origin import Serving
from elastream.handover.target import Left
from elastream.handover.testing.handover import (
    MemoryRecord,
    SimulatedOrigin,
    SimulatedTarget,
    operator_of,
)
from elastream.handover.testing.windows import Output, Row

_TURN_MS: Final = 100
_TIMING: Final = Timing(repeat_ms=300, patience_ms=2000, reach_ms=4000)
_QUIET_TURNS: Final = 120
"""After the streams have ended; longer than every patience together."""
_RESTART_TURNS: Final = 4


Stream = Sequence[tuple[int, Row]]
"""Rows of all inputs, each with the number of its input, in order of arrival."""
Fault = Literal["lose", "repeat", "delay"]


@dataclass(frozen=True, slots=True)
class HandoverScenario:
    """A query, its stream, when the target joins, and the faults."""

    shape: QueryShape
    stream: Stream
    join: Window | None = None
    """With it the query is row windows over the results of a join over these windows."""
    begin: int = 0
    """The target joins after this number of rows."""
    connect_after: tuple[int, ...] = ()
    """The target receives input i only this many rows after it connects."""
    lag: int = 0
    """Number of rows by which the origin is behind."""
    seed: int = 0
    """Seed for the number of rows per turn and the delay of messages."""
    target_shape: QueryShape | None = None
    """The target's idea of the query, if it differs."""
    faults: Mapping[int, Fault] = field(default_factory=dict)
    """Fault of the n-th message sent, from 0."""
    cut_after: int | None = None
    """All messages after this number are lost."""
    crash: tuple[Side, int] | None = None
    """The side crashes at its n-th effect, from 0: a message, a log line or a record."""
    comes_back: bool = True
    """Whether a crashed side is restarted."""
    full_disk: Side | None = None
    """The side whose record cannot be written."""
    full_at: frozenset[int] = frozenset()
    """Only these of its writes fail, counted from 0; all if empty."""
    clock_jump: tuple[Side, int, int] | None = None
    """The side's clock jumps by this many milliseconds in the n-th turn."""


def uninterrupted(scenario: HandoverScenario) -> list[Output]:
    """Return the output of an uninterrupted run of the query without a handover."""
    operator = operator_of(scenario.shape, scenario.join)
    return [output for i, row in scenario.stream for output in operator.read(i, row)]


class _Crash(BaseException):
    """Not an error but a simulated event, which no code of a side may catch."""


class SimulatedSide(MemoryRecord):
    """A side: its driver while it runs, and what survives a crash."""

    def __init__(self, world: SimulatedHandover, side: Side) -> None:
        super().__init__()
        self.side = side
        self.notes: list[Note] = []
        """Its log."""
        self.driver: OriginDriver | TargetDriver | None = None
        """``None`` before it is started and while it is dead."""
        self.lives = 0
        """How many times it was started."""
        self._world = world
        self._effects = self._writes = 0
        self._started_ms = 0

    def start(self, make: Callable[[], OriginDriver | TargetDriver]) -> None:
        """Start it, or start it again."""
        self.lives += 1
        self._started_ms = self._world.now_ms
        self._guard(lambda: setattr(self, "driver", make()))

    def pass_time(self) -> None:
        """Let it look at its clock, which begins with each of its lives."""
        self.handle(Clock(self._world.now_ms - self._started_ms + self._jumped_ms))

    def handle(self, event: Clock | Received) -> None:
        """Let it hear an event, if it lives."""
        driver = self.driver
        if driver is not None:
            self._guard(lambda: driver.handle(event))

    def log(self, note: Note) -> None:
        """Write a line of its log."""
        self._effect()
        self.notes.append(note)

    def write(self, record: Record) -> None:
        """Keep its record; it may die right after."""
        scenario, number = self._world.scenario, self._writes
        self._writes += 1
        is_bad = not scenario.full_at or number in scenario.full_at
        self.is_full = scenario.full_disk == self.side and is_bad
        super().write(record)
        self._effect()

    def send(self, message: Message) -> None:
        """Send a message to the other side."""
        self._effect()
        self._world.post(self.side, message)

    @property
    def _jumped_ms(self) -> int:
        side, turn, by_ms = self._world.scenario.clock_jump or (None, 0, 0)
        return by_ms if side == self.side and self._world.now_ms >= turn * _TURN_MS else 0

    def _guard(self, act: Callable[[], None]) -> None:
        try:
            act()
        except _Crash:
            self.driver = None
            self._world.died(self)

    def _effect(self) -> None:
        number, self._effects = self._effects, self._effects + 1
        if self._world.scenario.crash == (self.side, number):
            raise _Crash


class SimulatedHandover:
    """Two sides of one query; :meth:`run` plays the whole scenario, :meth:`turn` a turn of it."""

    def __init__(self, scenario: HandoverScenario) -> None:
        self.scenario = scenario
        self.now_ms = 0
        self.sides: dict[Side, SimulatedSide] = {
            "origin": SimulatedSide(self, "origin"),
            "target": SimulatedSide(self, "target"),
        }
        self.origin = SimulatedOrigin(scenario.shape, scenario.join)
        """The query as the origin runs it, with what it has ``put_out``."""
        self.target = SimulatedTarget(scenario.target_shape or scenario.shape, scenario.join)
        """The query as the target runs it, with what it has ``put_out``."""
        self._dice = random.Random(scenario.seed)  # noqa: S311 - chance, not secrecy
        self._come = self._read_by_origin = self._read_by_target = self._sent = 0
        self._flying: list[tuple[int, Side, Message]] = []
        self._connected_at: int | None = None
        self._restarts: deque[tuple[int, SimulatedSide]] = deque()

    def run(self) -> SimulatedHandover:
        """Play until the stream has ended and nothing will ever happen any more."""
        quiet = 0
        while quiet < _QUIET_TURNS:
            self.turn()
            ended = self._come == len(self.scenario.stream) and self._origin_is_through
            quiet = quiet + 1 if ended else 0
            if ended and self.is_settled:
                break
        return self

    def turn(self) -> None:
        """Let a tenth of a second pass: rows come, are read, messages arrive, clocks go on."""
        if not self.sides["origin"].lives:
            self._start_origin()
        self.now_ms += _TURN_MS
        stream, scenario = self.scenario.stream, self.scenario
        self._come = min(len(stream), self._come + self._dice.choice((0, 1, 1, 2)))
        if self._come >= min(scenario.begin, len(stream)) and not self.sides["target"].lives:
            self._start_target()
        while self._restarts and self._restarts[0][0] <= self.now_ms:
            self._restart(self._restarts.popleft()[1])
        behind = scenario.lag if self._come < len(stream) else 0
        self._origin_reads(self._come - behind)
        self._target_reads(self._come)
        self._deliver()
        for side in self.sides.values():
            side.pass_time()

    @property
    def boundary(self) -> Boundary | None:
        """Where the query was split, by the origin's record, which is the truth; ``None``: not."""
        record = self.sides["origin"].record
        return record.boundary if record is not None and record.state == "committed" else None

    @property
    def lost(self) -> list[Output]:
        """What an uninterrupted run puts out and neither side has."""
        return _without(uninterrupted(self.scenario), self._put_out)

    @property
    def doubled(self) -> list[Output]:
        """What the two sides put out more often than an uninterrupted run, or only they do."""
        return _without(self._put_out, uninterrupted(self.scenario))

    @property
    def is_settled(self) -> bool:
        """Whether both sides live, and nothing will ever happen any more."""
        origin, target = (self.sides[side].driver for side in ("origin", "target"))
        if self._flying or self._restarts or target is None or origin is None:
            return False
        if isinstance(target.machine.phase, Left):
            return isinstance(origin.machine.phase, Serving)
        return isinstance(origin, OriginDriver) and origin.machine.is_done

    def post(self, sender: Side, message: Message) -> None:
        """Take a message on its way, and let happen to it what the scenario says."""
        scenario, number = self.scenario, self._sent
        self._sent += 1
        fault = scenario.faults.get(number)
        if fault == "lose" or (scenario.cut_after is not None and number >= scenario.cut_after):
            return
        receiver: Side = "target" if sender == "origin" else "origin"
        takes = self._dice.choice((0, 0, 1, 3)) * _TURN_MS
        if fault == "delay":
            takes += self._dice.choice((5, 12, 40)) * _TURN_MS
        self._flying.append((self.now_ms + takes, receiver, message))
        if fault == "repeat":
            self._flying.append((self.now_ms + takes + 15 * _TURN_MS, receiver, message))

    def died(self, side: SimulatedSide) -> None:
        """Lose what only the side's driver knew; start it again later if it comes back."""
        if side.side == "origin":
            self.origin.crash()
        if self.scenario.comes_back:
            self._restarts.append((self.now_ms + _RESTART_TURNS * _TURN_MS, side))

    @property
    def _origin_is_through(self) -> bool:
        """Whether the origin has read the whole stream, or will never read again."""
        gone = self.sides["origin"].driver is None and not self._restarts
        return gone or self._read_by_origin == len(self.scenario.stream)

    @property
    def _put_out(self) -> list[Output]:
        return self.origin.put_out + self.target.put_out

    def _origin_reads(self, until: int) -> None:
        while self.sides["origin"].driver is not None and self._read_by_origin < until:
            self.origin.read(*self.scenario.stream[self._read_by_origin])
            self._read_by_origin += 1

    def _target_reads(self, until: int) -> None:
        if not self.target.is_connected or self.sides["target"].driver is None:
            return
        if self._connected_at is None:
            self._connected_at = self._read_by_target = until
        after = self.scenario.connect_after or (0,) * self.scenario.shape.inputs
        for place in range(self._read_by_target, until):
            i, row = self.scenario.stream[place]
            if place >= self._connected_at + after[i]:
                self.target.read(i, row)
        self._read_by_target = until

    def _deliver(self) -> None:
        due = [flight for flight in self._flying if flight[0] <= self.now_ms]
        self._flying = [flight for flight in self._flying if flight[0] > self.now_ms]
        for _, receiver, message in due:
            self.sides[receiver].handle(Received(message))

    def _start_origin(self) -> None:
        side = self.sides["origin"]
        side.start(
            lambda: OriginDriver(
                self.origin, self.scenario.shape, f"term {side.lives}", side,
                send=side.send, log=side.log, timing=_TIMING,
            )
        )  # fmt: skip

    def _start_target(self) -> None:
        side = self.sides["target"]
        shape = self.scenario.target_shape or self.scenario.shape
        side.start(
            lambda: TargetDriver(
                self.target, shape, f"handover {side.lives}", side,
                send=side.send, log=side.log, timing=_TIMING,
            )
        )  # fmt: skip

    def _restart(self, side: SimulatedSide) -> None:
        if side.side == "origin":
            self._start_origin()
            self.origin.resume()
            return
        record = side.record
        if record is None or record.state == "left":
            self.target.disconnect()
            self._connected_at = None
        self._start_target()


def _without(these: list[Output], others: list[Output]) -> list[Output]:
    """Return those of ``these`` that are not among the others, each as often as it is missing."""
    left = Counter(others)
    missing = []
    for output in these:
        if left[output]:
            left[output] -= 1
        else:
            missing.append(output)
    return missing
