"""Handovers in a simulated world: streams, a network that fails, sides that crash.

A query begins at an origin and is handed to a target; with ``onward`` from there to a next one, and
so on. The machines, the drivers and the records are the real ones; streams, network, disks and the
clock are simulated, in turns of a tenth of a second. The same scenario always has the same result.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from elastream.handover.driver import OriginDriver, TargetDriver
from elastream.handover.events import Timing
from elastream.handover.ledger import Note, Record, Side
from elastream.handover.messages import Message
from elastream.handover.model import Boundary, QueryShape, Window
from elastream.handover.origin import Serving
from elastream.handover.stay import Giving, Stay, Taking
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
_NUMBER: Final[Mapping[Side | int, int]] = {"origin": 0, "target": 1}

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
    reach_back: int = 0
    """A target reads from this number of rows before it connects."""
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
    crash: tuple[Side | int, int] | None = None
    """The side crashes at its n-th effect, from 0: a message, a log line or a record. The origin is
    also 0, the target 1, those after it 2 and more."""
    comes_back: bool = True
    """Whether a crashed side is restarted."""
    full_disk: Side | None = None
    """The side whose records cannot be written."""
    full_at: frozenset[int] = frozenset()
    """Only these of its writes fail, counted from 0; all if empty."""
    clock_jump: tuple[Side, int, int] | None = None
    """The side's clock jumps by this many milliseconds in the n-th turn."""
    onward: tuple[int, ...] = ()
    """For each application after the target: after this number of rows it joins the one before."""
    retries: int = 0
    """How many times an application that got nothing joins again."""


def uninterrupted(scenario: HandoverScenario) -> list[Output]:
    """Return the output of an uninterrupted run of the query without a handover."""
    operator = operator_of(scenario.shape, scenario.join)
    return [output for i, row in scenario.stream for output in operator.read(i, row)]


class _Crash(BaseException):
    """Not an error but a simulated event, which no code of a side may catch."""


class SimulatedSide:
    """A side: its stay while its process runs, and what survives a crash."""

    def __init__(self, world: SimulatedHandover, number: int) -> None:
        self.number = number
        self.notes: list[Note] = []
        """Its log."""
        self.stay: Stay | None = None
        """``None`` before it is started and while it is dead."""
        self.lives = 0
        """How many times it was started."""
        scenario = world.scenario
        shape = scenario.shape
        self.query = SimulatedOrigin(shape, scenario.join)
        if number:
            shape = scenario.target_shape or shape
            self.query = SimulatedTarget(shape, scenario.join)
        self.given, self.taken = _SideRecord(self), _SideRecord(self)
        self.shape = shape
        self.retries = 0
        self.read_until = self.connected_at = 0 if number == 0 else None
        self._world = world
        self._effects = self._writes = 0
        self._started_ms = 0

    @property
    def driver(self) -> OriginDriver | TargetDriver | None:
        """Of the role in the handover that brought the query here, or the origin's."""
        return None if self.stay is None else self.stay.target or self.stay.origin

    @property
    def record(self) -> Record | None:
        """Record of that role."""
        return self.taken.record if self.number else self.given.record

    def start(self) -> None:
        """Start it, or start it again."""
        self.lives += 1
        self._started_ms = self._world.now_ms
        self._guard(self._begin)

    def pass_time(self) -> None:
        """Let it look at its clock, which begins with each of its lives."""
        stay, now_ms = self.stay, self._world.now_ms - self._started_ms + self._jumped_ms
        if stay is not None and not self.has_left:
            self._guard(lambda: stay.pass_time(now_ms))

    def receive(self, sender: int, message: Message) -> None:
        """Let it process a message, if it lives."""
        stay = self.stay
        if stay is None or self.has_left:
            return
        on_message = (
            stay.on_message_of_origin if sender < self.number else stay.on_message_of_target
        )
        self._guard(lambda: on_message(message))

    @property
    def has_left(self) -> bool:
        """Whether it has handed the query on, and its process has ended."""
        origin = None if self.stay is None else self.stay.origin
        return origin is not None and origin.machine.is_done

    @property
    def got_nothing(self) -> bool:
        """Whether its handover ended without it."""
        target = None if self.stay is None else self.stay.target
        return target is not None and isinstance(target.machine.phase, Left)

    def log(self, note: Note) -> None:
        """Write a line of its log."""
        self.effect()
        self.notes.append(note)

    def has_room(self) -> bool:
        """Return whether its disk takes the record that is written now."""
        scenario, number = self._world.scenario, self._writes
        self._writes += 1
        is_bad = not scenario.full_at or number in scenario.full_at
        return scenario.full_disk is None or not (
            is_bad and _NUMBER[scenario.full_disk] == self.number
        )

    def effect(self) -> None:
        """Count a message, a log line or a record; crash at the one that the scenario names."""
        number, self._effects = self._effects, self._effects + 1
        crash = self._world.scenario.crash
        if crash is not None and (_NUMBER.get(crash[0], crash[0]), crash[1]) == (
            self.number,
            number,
        ):
            raise _Crash

    def _begin(self) -> None:
        def up(message: Message) -> None:
            self._send(self.number - 1, message)

        def down(message: Message) -> None:
            self._send(self.number + 1, message)

        taking = None
        if isinstance(self.query, SimulatedTarget):
            taking = Taking(self.query, self.taken, up)
        self.stay = Stay(
            self.shape,
            giving=Giving(self.query, self.given, down),
            taking=taking,
            name=lambda: f"life {self.lives} of {self.number}",
            log=self.log,
            timing=_TIMING,
        )

    def _send(self, receiver: int, message: Message) -> None:
        self.effect()
        self._world.post(self.number, receiver, message)

    @property
    def _jumped_ms(self) -> int:
        side, turn, by_ms = self._world.scenario.clock_jump or (None, 0, 0)
        is_own = side is not None and _NUMBER[side] == self.number
        return by_ms if is_own and self._world.now_ms >= turn * _TURN_MS else 0

    def _guard(self, act: Callable[[], None]) -> None:
        try:
            act()
        except _Crash:
            self.stay = None
            self._world.died(self)


class _SideRecord(MemoryRecord):
    """A record of a side, which may crash right after writing it."""

    def __init__(self, side: SimulatedSide) -> None:
        super().__init__()
        self._side = side

    def write(self, record: Record) -> None:
        """Replace the record."""
        self.is_full = not self._side.has_room()
        super().write(record)
        self._side.effect()


class SimulatedHandover:
    """All sides of one query; :meth:`run` plays the whole scenario, :meth:`turn` a turn of it."""

    def __init__(self, scenario: HandoverScenario) -> None:
        self.scenario = scenario
        self.now_ms = 0
        self.stays = [SimulatedSide(self, number) for number in range(2 + len(scenario.onward))]
        """The applications in the order of the handovers."""
        self.sides: dict[Side, SimulatedSide] = {
            "origin": self.stays[0],
            "target": self.stays[1],
        }
        self._dice = random.Random(scenario.seed)  # noqa: S311 - chance, not secrecy
        self._come = self._sent = 0
        self._flying: list[tuple[int, int, int, Message]] = []
        self._restarts: deque[tuple[int, SimulatedSide]] = deque()

    @property
    def origin(self) -> SimulatedOrigin:
        """The query as the origin runs it, with what it has ``put_out``."""
        return self.stays[0].query

    @property
    def target(self) -> SimulatedTarget:
        """The query as the target runs it, with what it has ``put_out``."""
        query = self.stays[1].query
        assert isinstance(query, SimulatedTarget)  # noqa: S101 - made so
        return query

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
        if not self.stays[0].lives:
            self.stays[0].start()
        self.now_ms += _TURN_MS
        stream, scenario = self.scenario.stream, self.scenario
        self._come = min(len(stream), self._come + self._dice.choice((0, 1, 1, 2)))
        for side, begin in zip(self.stays[1:], (scenario.begin, *scenario.onward), strict=True):
            if self._come >= min(begin, len(stream)) and not side.lives:
                side.start()
            if side.got_nothing and side.retries < scenario.retries:
                side.retries += 1
                side.stay = None
                self._restarts.append((self.now_ms + _RESTART_TURNS * _TURN_MS, side))
        while self._restarts and self._restarts[0][0] <= self.now_ms:
            self._restart(self._restarts.popleft()[1])
        behind = scenario.lag if self._come < len(stream) else 0
        self._reads(self.stays[0], self._come - behind)
        for side in self.stays[1:]:
            self._reads(side, self._come)
        self._deliver()
        for side in self.stays:
            side.pass_time()

    @property
    def boundary(self) -> Boundary | None:
        """Where the query was split, by the origin's record, which is the truth; ``None``: not."""
        return self.boundaries[0] if self.boundaries else None

    @property
    def boundaries(self) -> list[Boundary]:
        """Where the query was split, handover by handover, by the records of those who gave it."""
        records = [side.given.record for side in self.stays]
        return [
            record.boundary
            for record in records
            if record is not None and record.state == "committed" and record.boundary is not None
        ]

    @property
    def lost(self) -> list[Output]:
        """What an uninterrupted run puts out and no side has."""
        return _without(uninterrupted(self.scenario), self.put_out)

    @property
    def doubled(self) -> list[Output]:
        """What the sides put out more often than an uninterrupted run, or only they do."""
        return _without(self.put_out, uninterrupted(self.scenario))

    @property
    def put_out(self) -> list[Output]:
        """What all sides have put out, one after the other."""
        return [output for side in self.stays for output in side.query.put_out]

    @property
    def is_settled(self) -> bool:
        """Whether all sides live, and nothing will ever happen any more."""
        if self._flying or self._restarts:
            return False
        if any(side.got_nothing and side.retries < self.scenario.retries for side in self.stays):
            return False
        return all(map(self._is_settled, self.stays, self.stays[1:]))

    def _is_settled(self, side: SimulatedSide, following: SimulatedSide) -> bool:
        """Return whether nothing happens any more between two sides that follow one another."""
        if side.stay is None or following.stay is None:
            return False
        giving = side.stay.origin
        if following.got_nothing:
            return giving is None or isinstance(giving.machine.phase, Serving)
        return giving is not None and giving.machine.is_done

    def post(self, sender: int, receiver: int, message: Message) -> None:
        """Take a message on its way, and let happen to it what the scenario says."""
        if not 0 <= receiver < len(self.stays):
            return
        scenario, number = self.scenario, self._sent
        self._sent += 1
        fault = scenario.faults.get(number)
        if fault == "lose" or (scenario.cut_after is not None and number >= scenario.cut_after):
            return
        takes = self._dice.choice((0, 0, 1, 3)) * _TURN_MS
        if fault == "delay":
            takes += self._dice.choice((5, 12, 40)) * _TURN_MS
        self._flying.append((self.now_ms + takes, sender, receiver, message))
        if fault == "repeat":
            later_ms = self.now_ms + takes + 15 * _TURN_MS
            self._flying.append((later_ms, sender, receiver, message))

    def died(self, side: SimulatedSide) -> None:
        """Lose what only the side's driver knew; start it again later if it comes back."""
        side.query.crash()
        if self.scenario.comes_back:
            self._restarts.append((self.now_ms + _RESTART_TURNS * _TURN_MS, side))

    @property
    def _origin_is_through(self) -> bool:
        """Whether the origin has read the whole stream, or will never read again."""
        origin = self.stays[0]
        gone = origin.driver is None and not self._restarts
        return gone or origin.read_until == len(self.scenario.stream)

    def _reads(self, side: SimulatedSide, until: int) -> None:
        """Let a side read what has come, a target from where it connects."""
        query = side.query
        is_connected = not isinstance(query, SimulatedTarget) or query.is_connected
        if side.driver is None or not is_connected:
            return
        if side.connected_at is None:
            side.connected_at = side.read_until = max(0, until - self.scenario.reach_back)
        after = (0,) * self.scenario.shape.inputs
        if side.number:
            after = self.scenario.connect_after or after
        for place in range(side.read_until or 0, until):
            i, row = self.scenario.stream[place]
            if place >= side.connected_at + after[i]:
                query.read(i, row)
        side.read_until = max(side.read_until or 0, until)

    def _deliver(self) -> None:
        due = [flight for flight in self._flying if flight[0] <= self.now_ms]
        self._flying = [flight for flight in self._flying if flight[0] > self.now_ms]
        for _, sender, receiver, message in due:
            self.stays[receiver].receive(sender, message)

    def _restart(self, side: SimulatedSide) -> None:
        query, record = side.query, side.taken.record
        if isinstance(query, SimulatedTarget) and (record is None or record.state == "left"):
            query.disconnect()
            side.connected_at = None
        side.start()
        query.resume()


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
