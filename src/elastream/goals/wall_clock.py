"""Wall-clock time: what the clocks of a time zone show, and when they show it.

Wall-clock times are ``datetime`` values without a zone. The zone is named where it is needed;
``None`` is the zone of the system, which Python knows without a time zone database.

Clocks are set twice a year in many zones. A time that they show twice means the first of the two.
A time that they skip means as long after the change as it would have been without it (PEP 495).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError

_EPOCH: Final = datetime(1970, 1, 1)
_MILLISECOND: Final = timedelta(milliseconds=1)


def checked_zone(field: str, name: object) -> str | None:
    """Return the name of a zone that is known here, or ``None``."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise ProblemError(field, f"{abbreviate(name)} is not the name of a time zone")
    try:
        _zone(name)
    except (KeyError, ValueError, OSError):
        wrong = f"{abbreviate(name)} is not a time zone of this machine"
        hint = "give one such as Europe/Berlin; pip install tzdata if the machine has none"
        raise ProblemError(field, f"{wrong}; {hint}") from None
    return name


def wall_clock(at_s: float, zone: str | None) -> datetime:
    """Return what the clocks show at a moment."""
    return datetime.fromtimestamp(at_s, _zone(zone)).replace(tzinfo=None)


def wall_clock_ms(at_ms: float, zone: str | None) -> float:
    """Return what the clocks show at a moment, in ms since they showed the start of 1970."""
    return (wall_clock(at_ms / 1000, zone) - _EPOCH) / _MILLISECOND


def moment_of(wall: datetime, zone: str | None) -> float:
    """Return when the clocks show this, in seconds since the epoch.

    A ``datetime`` that has a zone of its own keeps it.
    """
    return (wall if wall.tzinfo else wall.replace(tzinfo=_zone(zone))).timestamp()


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    return UTC if name == "UTC" else ZoneInfo(name)
