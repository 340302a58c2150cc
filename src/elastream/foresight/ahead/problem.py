"""One migration of tasks that any node may hold, with later migrations in view.

Later migrations are given in one of two ways: by a chain of sizes
(:class:`~elastream.foresight.mtm.problem.MigrationChain`), or by *futures*, each a sequence of
migrations with its odds: a schedule is a single future, a forecast has several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from elastream.foresight.mtm.problem import MigrationChain, discount, expect_one_limit, state_after
from elastream.model.assignment import MOST_NODES
from elastream.model.checks import Number, count, non_negative, non_negatives
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import StepPlan

_MOST_FUTURES, _MOST_MIGRATIONS = 10_000, 100
_ODDS_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Future:
    """Migrations that may follow, in order."""

    odds: float
    """Its probability; those of all futures of a problem sum to 1."""
    targets: tuple[Target, ...]

    @classmethod
    def of(cls, odds: Number, targets: Sequence[tuple[int, Number]], field: str = "") -> Future:
        """Return the checked future; each target is a pair (nodes, tau)."""
        if not 0 < len(targets) <= _MOST_MIGRATIONS:
            given = f"has {len(targets)} migrations; give 1 to {_MOST_MIGRATIONS}"
            raise ProblemError(f"{field}targets", given)
        return cls(
            float(non_negative(f"{field}odds", odds)),
            tuple(
                Target.of(nodes, tau, f"{field}targets[{i}].")
                for i, (nodes, tau) in enumerate(targets)
            ),
        )


@dataclass(frozen=True, slots=True)
class PastWork:
    """Work of the tasks at a past migration: work drifts, and plans should tolerate that."""

    nodes: int
    """Number of nodes after it."""
    work: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class FreeAheadProblem:
    """A migration, and what may follow: a chain or futures, one of the two."""

    step: StepProblem
    gamma: float
    """Weight of each further migration relative to the previous one, from 0 to 1."""
    chain: MigrationChain | None = None
    state: int = 0
    """The chain's state after the current migration."""
    futures: tuple[Future, ...] = ()
    past: tuple[PastWork, ...] = ()
    """Work that later migrations may meet; if empty, the current work."""

    @classmethod
    def of_chain(
        cls,
        step: StepProblem,
        chain: MigrationChain,
        direction: str | None = None,
        past: Sequence[PastWork] = (),
    ) -> FreeAheadProblem:
        """Return the problem with the odds of a chain."""
        state = state_after(step, chain, direction)
        checked = tuple(
            PastWork(
                count(f"past[{i}].nodes", each.nodes, least=1, most=MOST_NODES),
                non_negatives(f"past[{i}].work", each.work, length=len(step.work)),
            )
            for i, each in enumerate(past)
        )
        return cls(step, chain.gamma, chain, state, past=checked)

    @classmethod
    def of_futures(
        cls, step: StepProblem, futures: Sequence[Future], gamma: Number = 1
    ) -> FreeAheadProblem:
        """Return the problem with futures whose odds sum to 1."""
        expect_one_limit(step)
        if not 0 < len(futures) <= _MOST_FUTURES:
            raise ProblemError("futures", f"has {len(futures)} entries; give 1 to {_MOST_FUTURES}")
        total = sum(future.odds for future in futures)
        if abs(total - 1) > _ODDS_TOLERANCE:
            raise ProblemError("futures", f"have odds that sum to {total:g}, not to 1")
        return cls(step, float(discount("gamma", gamma, most=1)), futures=tuple(futures))


@dataclass(frozen=True, slots=True)
class FreeAheadPlan:
    """A migration chosen with later ones in view."""

    status: Literal["optimal", "feasible"]
    """``optimal``: no placement costs less now and later; all of them were valued."""
    step: StepPlan
    """The current migration; its own status refers to its cost only."""
    projected: float
    """The discounted state that later migrations are expected to move, in bytes: by the best policy
    where the status is optimal, else by single steps in the futures that were looked at."""
    standard_error: float
    """Of ``projected``, where futures were drawn; else 0."""
    free_cost: Number
    """What a free step would move now. The plan moves at most ``most_cost``."""
    most_cost: float
    """The stated bound on the state moved now."""
    looked_at: int
    """Number of placements compared."""
