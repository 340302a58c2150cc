"""What came of one run, as data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastream_lab.campaign.breaking import Outcome
from elastream_lab.campaign.scenario import Scenario


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of one run."""

    scenario: Scenario
    problems: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    left_of_killed: tuple[str, ...]
    """Files that killed drivers left: no one was there to remove them."""
    decisions: dict[str, int]
    """How many lines of each kind the log has, holds and waits left out."""
    seconds: float
    folder: Path | None = None
    """What was kept of a run that failed."""

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """Return it for a file."""
        return {
            "run": self.scenario.number,
            "passed": self.passed,
            "problems": list(self.problems),
            "faults": [
                {
                    "kind": each.fault.kind,
                    "phase": each.fault.phase,
                    "reached": each.reached,
                    "landed": each.landed,
                    "what": each.what,
                }
                for each in self.outcomes
            ],
            "left_of_killed": list(self.left_of_killed),
            "decisions": self.decisions,
            "seconds": round(self.seconds, 1),
            "folder": None if self.folder is None else str(self.folder),
            "scenario": self.scenario.as_json(),
        }
