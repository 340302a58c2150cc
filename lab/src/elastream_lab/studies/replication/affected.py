"""What reconfigurations cost a stream: the batches that each affects, and what they took longer.

Paper 004, section 7.3, shows the total downtime of a run, and the mean response time without the
tuples that were buffered in reconfigurations. A stream of batches has no moment at which it stands
still and another at which it goes on: a change makes some batches come later. So its *downtime* is
the sum of what all batches that it affects come later than usual, one after the other: from the
first that ends after it began to the first that is as usual again after it ended, and no more than
five after its end: a load that rises makes batches late too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from elastream_lab.applications.taxi.run import Span
from elastream_lab.harness.commit_log import CommittedBatch

_BEFORE: Final = 10
"""This many batches before a reconfiguration are the usual ones."""
_USUAL: Final = 1.2
"""A batch is as usual again if it comes no later than this many times the usual interval."""
_AFTER: Final = 5
"""At most this many batches after its end count for a change."""


@dataclass(frozen=True, slots=True)
class Affected:
    """What one change did."""

    change: Span
    batches: frozenset[int]
    """Which batches it affected, by their place in the run."""
    excess_s: float
    """What they came later than usual, together."""


def affected_by(batches: Sequence[CommittedBatch], changes: Sequence[Span]) -> list[Affected]:
    """Return what each change affected; a batch counts for the first change that does."""
    intervals = [(a.finished_ms, b.finished_ms) for a, b in pairwise(batches)]
    found: list[Affected] = []
    taken: set[int] = set()
    for change in changes:
        usual = [
            end - begin
            for number, (begin, end) in enumerate(intervals, 1)
            if end <= change.began_ms and number not in taken
        ][-_BEFORE:]
        if not usual:
            continue
        usual_ms = median(usual)
        late: dict[int, float] = {}
        after = 0
        for number, (begin, end) in enumerate(intervals, 1):
            if end <= change.began_ms or number in taken:
                continue
            after += begin >= change.ended_ms
            if after and (end - begin <= _USUAL * usual_ms or after > _AFTER):
                break
            late[number] = max(0.0, end - begin - usual_ms)
        taken |= late.keys()
        found.append(Affected(change, frozenset(late), sum(late.values()) / 1000))
    return found
