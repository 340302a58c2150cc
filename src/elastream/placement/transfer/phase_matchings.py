"""Which pairs share a phase: the matchings behind :mod:`~.transfer_phases`.

Graph. On the left every sender, and a shadow of every receiver; on the right every receiver, and a
shadow of every sender. Each pair of nodes is an edge twice, once between the nodes and once,
reversed, between their shadows; each node has an edge to its own shadow, which represents resting
for a phase. An edge's reach is the longest phase it can be in: bytes left plus the smaller slack of
its ends for a pair, the slack for a resting node. A perfect matching on edges of reach at least d
is a phase of length d: matched pairs send, nodes matched to their shadow rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastream.placement.matchings import most_pairs
from elastream.placement.whole_units import UnitArray, unit_array

Ints = NDArray[np.int64]


def matched_phases(
    pairs: Sequence[tuple[int, int]], volumes: Sequence[int]
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield each phase as its length and the (index of the pair, units sent) in it.

    ``pairs`` are distinct (source, target), ascending; ``volumes`` are positive units.
    """
    links = _Links.between(pairs)
    left = unit_array(volumes, largest=2 * sum(volumes))
    to_send = _sums(links.sender, left, links.senders)
    to_receive = _sums(links.receiver, left, links.receivers)
    remaining = int(max(to_send.max(initial=0), to_receive.max(initial=0)))
    threshold = remaining
    while remaining:
        slack_out, slack_in = remaining - to_send, remaining - to_receive
        reach = left + np.minimum(slack_out[links.sender], slack_in[links.receiver])
        reach[left == 0] = 0
        reaches = np.concatenate([reach, reach, slack_out, slack_in])
        matched = links.matching(reaches >= threshold)
        if matched is None:
            threshold = _lowered(threshold, reaches)
            continue
        length = min(int(reaches[matched].min()), remaining)
        active = matched[matched < len(pairs)]
        sent = np.minimum(left[active], length)
        left[active] -= sent
        to_send[links.sender[active]] -= sent
        to_receive[links.receiver[active]] -= sent
        remaining -= length
        yield length, list(zip(active.tolist(), sent.tolist(), strict=True))


def _lowered(threshold: int, reaches: UnitArray) -> int:
    """Return the next reach to try, about a tenth lower; the lowest always suffices."""
    possible = reaches[reaches > 0]
    lower = possible[possible <= threshold - max(1, threshold // 10)]
    return int(lower.max() if lower.size else possible.min())


def _sums(index: Ints, values: UnitArray, length: int) -> UnitArray:
    sums = np.zeros(length, dtype=values.dtype)
    np.add.at(sums, index, values)
    return sums


@dataclass(frozen=True, slots=True)
class _Links:
    """The graph; edges are numbered: pairs, pairs between shadows, senders, receivers at rest."""

    senders: int
    receivers: int
    sender: Ints
    """Left end of each pair, counted among the senders."""
    receiver: Ints
    """Right end of each pair, counted among the receivers."""
    order: Ints
    """The edges by their left end."""
    left: Ints
    """Left end of each edge in ``order``."""
    right: Ints
    """Right end of each edge in ``order``."""

    @classmethod
    def between(cls, pairs: Sequence[tuple[int, int]]) -> _Links:
        names_out, sender = np.unique([source for source, _ in pairs], return_inverse=True)
        names_in, receiver = np.unique([target for _, target in pairs], return_inverse=True)
        senders, receivers = len(names_out), len(names_in)
        out, into = np.arange(senders), np.arange(receivers)
        left = np.concatenate([sender, senders + receiver, out, senders + into])
        right = np.concatenate([receiver, receivers + sender, receivers + out, into])
        order = np.argsort(left, kind="stable")
        return cls(senders, receivers, sender, receiver, order, left[order], right[order])

    def matching(self, offered: NDArray[np.bool_]) -> Ints | None:
        """Return the edges of a perfect matching that cover senders and receivers, or ``None``."""
        side = self.senders + self.receivers
        chosen = offered[self.order]
        left, right = self.left[chosen], self.right[chosen]
        starts = np.searchsorted(left, np.arange(side + 1))
        partner = most_pairs(starts, right, side)
        if (partner < 0).any():
            return None
        in_matching = partner[left] == right
        between_shadows = (left >= self.senders) & (right >= self.receivers)
        edges: Ints = self.order[chosen][in_matching & ~between_shadows]
        return edges
