"""What to ask for so that the loop comes into a phase, where what was drawn did not bring it."""

from __future__ import annotations

from elastream_lab.campaign.scenario import Request


def request_for(phase: str, executors: int, most: int) -> Request | None:
    """Return what brings the phase, or the change that must come before; ``None`` for no change."""
    if phase == "steady":
        return None
    more = Request(most) if executors < most else None
    fewer = Request(executors - 1) if executors > 1 else None
    if phase in ("growing", "warming"):
        return more or fewer
    if phase == "releasing":
        return fewer or more
    if phase == "planning":
        return more or fewer
    return Request(None) if executors > 1 else more
