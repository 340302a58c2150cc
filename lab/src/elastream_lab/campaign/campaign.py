"""Many runs, one after another; what is kept of those that fail."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from elastream.model.checks import count
from elastream_lab.campaign.drawing import draw
from elastream_lab.campaign.results import RunResult
from elastream_lab.campaign.run import run_scenario


@dataclass(frozen=True, slots=True)
class CampaignSettings:
    """Which runs."""

    seed: int = 1
    runs: int = 10
    only: int | None = None
    """The number of one run, to have it again; ``None`` for all."""

    def __post_init__(self) -> None:
        count("seed", self.seed)
        count("runs", self.runs, least=1)
        if self.only is not None:
            count("run", self.only)

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the runs."""
        return range(self.runs) if self.only is None else (self.only,)


def run_campaign(
    settings: CampaignSettings,
    folder: Path,
    *,
    begun: Callable[[int], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
    done: Callable[[RunResult], None],
) -> None:
    """Run them, each in a folder of its own, which stays only where the run fails."""
    for number in settings.numbers:
        begun(number)
        scenario = draw(settings.seed, number)
        own = folder / f"run-{settings.seed}-{number}"
        result = run_scenario(scenario, own, say)
        if result.passed:
            shutil.rmtree(own)
            done(result)
        else:
            done(replace(result, folder=own))
