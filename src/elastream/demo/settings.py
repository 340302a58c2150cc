"""What ``elastream demo`` is asked to do, checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elastream.core.policy import Policy, mechanism_named, planner_named
from elastream.goals.utilisation import Utilisation
from elastream.model.checks import amount, count
from elastream.model.errors import ProblemError

__all__ = ["DemoSettings"]

_BUSIEST = 0.5
"""Share of all the executors' time that the busiest moment sleeps, where the service time is not
given: with what a batch takes besides, the policy's target wants ``executors_max`` for it."""

_LONGEST_TRIGGERS = 2.0
"""A batch of an overloaded query shall sleep no longer than so many triggers."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What shall be run; checked when made."""

    input: Path | None = None
    """A file to replay; ``None`` for a day made from the seed."""
    time: str | None = None
    text: str | None = None
    seed: int = 1
    replay_s: float = 150.0
    """How long the replay takes."""
    service_us: float | None = None
    """What a word costs, slept; ``None`` for one that makes the busiest moment need the most
    executors."""
    executors_min: int = 2
    executors_max: int = 4
    spares: int = 1
    """Executors kept warm and without state, which a scale-out takes; they count among the most."""
    partitions: int = 8
    planner: str = "free-step"
    """How the tasks that move are chosen."""
    mechanism: str = "live"
    """How changes are carried out."""
    trigger_s: float = 2.0
    """Whatever a task takes without any row is paid so often, and looks like load."""

    def __post_init__(self) -> None:
        count("seed", self.seed)
        if not 1 <= amount("replay_s", self.replay_s) <= 3600:
            raise ProblemError("replay_s", f"{self.replay_s:g} is not between 1 and 3600")
        if self.service_us is not None and amount("service_us", self.service_us) > 1e6:
            raise ProblemError("service_us", f"{self.service_us:g} is above a second a word")
        count("executors_min", self.executors_min, least=1)
        count("executors_max", self.executors_max, least=1, most=16)
        if self.executors_min > self.executors_max:
            low, high = self.executors_min, self.executors_max
            raise ProblemError("executors_min", f"{low} is above `executors_max`, {high}")
        count("spares", self.spares, most=16)
        count("partitions", self.partitions, least=1, most=1000)
        planner_named(self.planner)
        mechanism_named(self.mechanism)
        self._check_columns()

    def _check_columns(self) -> None:
        from elastream.harness.recorded_file import expect_columns  # brings NumPy

        expect_columns(self.input, {"time": self.time, "text": self.text})

    def service_us_for(self, words_a_second: float) -> float:
        """Return the service time; ``words_a_second`` is the rate at the busiest moment."""
        if self.service_us is not None:
            return self.service_us
        return round(_BUSIEST * self.executors_max / max(words_a_second, 1.0) * 1e6, 1)

    def rows_a_batch(self, words_a_post: float, service_us: float) -> int | None:
        """Return how many posts the fewest executors work off in a few triggers."""
        if not service_us:
            return None
        slept_s = words_a_post * service_us / 1e6
        return max(1, round(_LONGEST_TRIGGERS * self.trigger_s * self.executors_min / slept_s))

    def policy(self) -> Policy:
        """Return a policy for a day of minutes: quick to decide, gentle in moving."""
        return Policy(
            min_executors=self.executors_min,
            max_executors=self.executors_max,
            spares=self.spares,
            goal=Utilisation(target=0.6, hysteresis=0.1, catch_up_s=20.0),
            planner=self.planner,
            mechanism=mechanism_named(self.mechanism),
            cooldown_s=8.0,
            patience=2,
            smoothing_s=4.0,
            tau=0.1,
            moves_per_batch=3,
            settle_batches=1,
        )
