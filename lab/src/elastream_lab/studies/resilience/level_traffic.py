"""The same bursts at several load levels, in one recording for each sub-stream.

"We scale the rate of the inputs by a constant" (section 7.3.5 of paper 003). Here a level keeps its
share of the packets of the highest level, drawn at random once, so that a higher level has all the
packets of a lower one and more, at the same times. The levels follow each other in the recording:
first the lead, which makes the queries ready and which the rivals see, then the bursts at each
level. Event times go on without a gap; by the clock of the replay there is an hour between two
levels, in which nothing is due: the clock is set to the next level when the last is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from elastream.model.errors import ProblemError
from elastream_lab.applications.traffic.made_packets import MadeTraffic, make_packets
from elastream_lab.applications.traffic.packets import Packets, record_due

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elastream_lab.harness.recording import Recording


LEAD_S: Final = 6.0
"""What the rivals see, and what makes the queries ready."""
_PACKETS_A_SECOND: Final = 20.0
"""At level 1, in the mean, where there are as many."""
_APART_S: Final = 3600.0
_TRIAL_S: Final = 600.0
_TRIAL_SEED: Final = 1_000_003


@dataclass(frozen=True, slots=True)
class Levelled:
    """Recordings of the sub-streams, and where in them each level is."""

    recordings: tuple[Recording, ...]
    levels: tuple[float, ...]
    replay_s: float

    def begins_s(self, level: int) -> float:
        """Return when the bursts of the level of this number are due, by the recording."""
        return LEAD_S + level * (self.replay_s + _APART_S)

    def rows(self, level: int) -> tuple[tuple[int, int], ...]:
        """Return the positions of its first packet and after its last, of each sub-stream."""
        begin_s = self.begins_s(level)
        marks = (1000 * begin_s, 1000 * (begin_s + self.replay_s + _APART_S / 2))
        found = (np.searchsorted(one.due_ms, marks) for one in self.recordings)
        return tuple((int(first), int(last)) for first, last in found)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Whose packets: those of a log, a part of it for each repeat, or made ones."""

    substreams: int
    replay_s: float
    levels: tuple[float, ...]
    repeats: int
    seed: int = 0
    log: Packets | None = None

    @property
    def data(self) -> str:
        """What they are, in words."""
        if self.log is None:
            return f"made bursts of {self.replay_s:g} s"
        span_s = (self.log.time_us[-1] - self.log.time_us[0]) / 1e6 / (self.repeats + 1)
        return (
            f"{self.repeats} parts of a log of {len(self.log):,} packets, {span_s:.0f} s replayed "
            f"in {LEAD_S + self.replay_s:g} s each"
        )

    @property
    def packets_a_second(self) -> float:
        """In the mean at level 1, of all sub-streams together."""
        if self.log is None:
            return _PACKETS_A_SECOND
        there = len(self.log) / (self.repeats + 1) / (LEAD_S + self.replay_s) / max(self.levels)
        return min(_PACKETS_A_SECOND, there)

    def bursts(
        self, repeat: int, folder: Path, levels: tuple[float, ...] | None = None
    ) -> Levelled:
        """Write the packets of a repeat, the lead and then every level, or those named."""
        chosen = self.levels if levels is None else levels
        rng = np.random.default_rng((self.seed, repeat))
        whole_s = LEAD_S + self.replay_s
        top = self._top(self.seed + repeat, 1 + repeat, whole_s, rng)
        at_s = _elapsed_s(top, whole_s)
        drawn = rng.random(len(top)) * max(self.levels)
        leads = at_s < LEAD_S
        parts = [np.flatnonzero(leads & (drawn < 1))]
        due = [at_s[parts[0]]]
        span_us = float(top.time_us[-1] - top.time_us[0]) / whole_s * self.replay_s
        shifts = [0]
        for number, level in enumerate(chosen):
            parts.append(np.flatnonzero(~leads & (drawn < level)))
            due.append(at_s[parts[-1]] + number * (self.replay_s + _APART_S))
            shifts.append(round(number * span_us))
        joined = _shifted(top, parts, shifts)
        due_ms = np.floor(1000 * np.concatenate(due)).astype(np.int64)
        folder.mkdir()
        made = record_due(joined, due_ms, folder, substreams=self.substreams)
        return Levelled(made, chosen, self.replay_s)

    def trial(self, folder: Path) -> Levelled:
        """Write packets of the same kind that no repeat sees, at the middle of the levels."""
        rng = np.random.default_rng((self.seed, _TRIAL_SEED))
        whole_s = LEAD_S + _TRIAL_S
        packets = self._top(self.seed + _TRIAL_SEED, 0, whole_s, rng)
        middle = float(np.mean(self.levels)) / max(self.levels)
        packets = packets.take(np.flatnonzero(rng.random(len(packets)) < middle))
        due_ms = np.floor(1000 * _elapsed_s(packets, whole_s)).astype(np.int64)
        folder.mkdir()
        made = record_due(packets, due_ms, folder, substreams=self.substreams)
        return Levelled(made, (middle,), _TRIAL_S)

    def _top(self, seed: int, part: int, whole_s: float, rng: np.random.Generator) -> Packets:
        """Return the packets of the highest level."""
        rate = self.packets_a_second * max(self.levels)
        if self.log is None:
            return make_packets(
                MadeTraffic(
                    seed=seed,
                    span_s=whole_s,
                    packets_a_second=rate,
                    substreams=self.substreams,
                )
            )
        parts = self.repeats + 1
        own = self.log.between(part / parts, (part + 1) / parts)
        if not len(own):
            raise ProblemError("repeats", f"part {part + 1} of {parts} of the log has no packets")
        share = rate * whole_s / len(own)
        return own.take(np.flatnonzero(rng.random(len(own)) < share))


def _elapsed_s(packets: Packets, whole_s: float) -> NDArray[np.float64]:
    """Return when each packet comes if all of them take ``whole_s``."""
    elapsed = (packets.time_us - packets.time_us[0]).astype(np.float64)
    found: NDArray[np.float64] = elapsed / max(float(elapsed[-1]), 1.0) * whole_s
    return found


def _shifted(
    packets: Packets, parts: Sequence[NDArray[np.int64]], shifts_us: Sequence[int]
) -> Packets:
    """Return the parts one after the other, each later by its shift."""
    times = [packets.time_us[rows] + shift for rows, shift in zip(parts, shifts_us, strict=True)]
    joined = packets.take(np.concatenate(parts))
    return Packets(np.concatenate(times), joined.source, joined.destination, joined.size)
