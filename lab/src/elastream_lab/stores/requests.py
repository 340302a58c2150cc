"""What an S3 server was asked, as its access log shows: the cost of many small files.

A line for each request, in the format of S3's own server access logs, whose times are in whole
seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

_TIME: Final = "[%d/%B/%Y:%H:%M:%S %z]"
_FIELDS: Final = 11
"""This many are looked at; what follows differs between servers."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    at_ms: float
    """When it was answered, in milliseconds since the epoch, in whole seconds."""
    operation: str
    """As ``PutObject``."""
    key: str
    """The object's name; nothing where it is about the bucket."""
    status: int
    """Of HTTP."""


def read_requests(log: Path) -> Iterator[Request]:
    """Yield what has been asked so far, in order; lines that are not requests are skipped."""
    with log.open(errors="replace") as lines:
        for line in lines:
            words = line.split()
            if len(words) > _FIELDS and words[2].startswith("[") and words[10].isdigit():
                at = datetime.strptime(f"{words[2]} {words[3]}", _TIME)
                operation = words[7].rpartition(":")[2].rpartition("_")[2]
                key = "" if words[8] == "-" else words[8]
                yield Request(1000 * at.timestamp(), operation, key, int(words[10]))
