"""Many damaged inputs, shared among processes."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from elastream_lab.fuzz.reader import Reader
from elastream_lab.fuzz.reading import KINDS

_TOLD_EVERY: Final = 5000

Job = tuple[str, str]
"""A kind of input, and the seed of its damage."""


@dataclass(slots=True)
class Readings:
    """What came of the inputs that were read."""

    of_kind: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


def read_many(
    count: int, seed: int, processes: int, found: Callable[[str], None] = lambda _: None
) -> Readings:
    """Have this many inputs read, of all kinds in turn; ``found`` gets each finding at once."""
    kinds = sorted(KINDS)
    jobs = [(kinds[number % len(kinds)], f"{seed}/{number}") for number in range(count)]
    readings = Readings()
    with tempfile.TemporaryDirectory(prefix="elastream-fuzz-") as folder:

        def read(mine: Sequence[Job]) -> None:
            with closing(Reader(Path(folder))) as reader:
                for kind, own in mine:
                    text, wrong = reader.read(kind, own)
                    readings.of_kind[kind] += 1
                    if wrong is not None:
                        readings.findings.append(f"{kind}, seed {own}: {wrong}\n  {text[:400]!r}")
                        found(readings.findings[-1])
                    if (done := readings.of_kind.total()) % _TOLD_EVERY == 0:
                        print(f"{done} of {count} read", file=sys.stderr, flush=True)

        with ThreadPoolExecutor(processes) as threads:
            list(threads.map(read, [jobs[first::processes] for first in range(processes)]))
    return readings


def tell(readings: Readings) -> None:
    """Print how many inputs of each kind were read, and how many findings there were."""
    for kind, number in sorted(readings.of_kind.items()):
        print(f"{number:7d} {kind}")
    print(f"{readings.of_kind.total():7d} read, {len(readings.findings)} findings")
