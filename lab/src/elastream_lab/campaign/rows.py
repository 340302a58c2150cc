"""The rows that a scenario is fed, the same for the same scenario, and when each is too late.

Every file has a moment of its own, ``STEP_S`` after the one before. Its rows lie around it, out of
order, but always within the watermark's delay of anything that came before: whatever files a batch
takes together, none of them is late. Rows that shall be late are hours so, and are fed when all
files before them are committed: whatever the batches were, each of them is.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from elastream.atomic_io import replacing
from elastream_lab.campaign.scenario import Scenario

START_S: Final = 1_600_000_000
"""The moment of the first file."""
STEP_S: Final = 4
DELAY_S: Final = 30
"""Of the watermark. Rows are at most 18 s behind the latest that came before them."""
KEYS: Final = 12
CLOSING_KEY: Final = -1
_ROWS_A_FILE: Final = (15, 40)
_BEHIND_S: Final = 10
_AFTER_S: Final = 8
"""How long after its partner a row of the other side may come."""
_LATE_S: Final = 7200
_CLOSING_S: Final = 3600
_MTIME_S: Final = 1_700_000_000
"""Spark reads files in the order in which they were last written."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row."""

    event: int
    """What happened: rows that were sent twice have the same, and so have partners."""
    key: int
    side: int
    """0 or 1: of which of two streams that are joined."""
    at: int
    """When, in seconds since the epoch."""
    value: int

    @property
    def late(self) -> bool:
        """Whether it is far too late for every watermark."""
        return self.at < START_S - 3600


def round_files(scenario: Scenario, number: int) -> list[list[Row]]:
    """Return the rows of a round, file by file."""
    before = sum(each.files for each in scenario.rounds[:number])
    this = scenario.rounds[number]
    dice = random.Random(f"{scenario.seed}/{scenario.number}/{number}")  # noqa: S311 - no secret
    files = [list(_file(dice, before + each)) for each in range(this.files)]
    files[0] += [_late(dice, before * 1000 + 900 + each) for each in range(this.late_rows)]
    for each in files:
        dice.shuffle(each)
    return files


def closing_file(scenario: Scenario) -> list[Row]:
    """Return the rows that move the watermark of both sides past all others."""
    at = START_S + scenario.files * STEP_S + _CLOSING_S
    return [Row(CLOSING_KEY - side, CLOSING_KEY, side, at, 0) for side in (0, 1)]


def put(folder: Path, number: int, rows: Sequence[Row]) -> None:
    """Put a file into the folder, whole, so that Spark reads it after those with lower numbers."""
    with replacing(folder / f"{number:05d}.json") as temporary:
        temporary.write_text("".join(f"{json.dumps(asdict(row))}\n" for row in rows))
        os.utime(temporary, (_MTIME_S + number, _MTIME_S + number))


def _file(dice: random.Random, number: int) -> Iterator[Row]:
    moment = START_S + number * STEP_S
    for index in range(dice.randint(*_ROWS_A_FILE)):
        event, key = number * 1000 + index, dice.randrange(KEYS)
        at = moment - dice.randint(0, _BEHIND_S)
        row = Row(event, key, 0, at, dice.randint(0, 99))
        yield row
        if dice.random() < 0.2:
            yield row  # it was sent twice
        if dice.random() < 0.7:
            yield Row(event, key, 1, at + dice.randint(0, _AFTER_S), dice.randint(0, 99))


def _late(dice: random.Random, event: int) -> Row:
    return Row(event, dice.randrange(KEYS), dice.randint(0, 1), START_S - _LATE_S, 1)
