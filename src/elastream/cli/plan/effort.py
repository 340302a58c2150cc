"""``--seconds`` of ``elastream plan``, in the effort that each planner counts.

Planners look at no clock: they count what they do, so that equal problems have equal plans on any
machine, however busy it is. ``--seconds`` is turned into such a count at a fixed rate, about what
an ordinary core does in a second, and promises no time. Without it a planner's own effort holds.
"""

from __future__ import annotations

from typing import Annotated

import typer

CELLS_A_SECOND = 60_000_000
"""Of sequence."""
VALUES_A_SECOND = 150_000_000
"""Of replication."""
BRANCHES_A_SECOND = 100_000
"""Of free-step."""

Seconds = Annotated[
    float | None,
    typer.Option(
        min=0.1,
        show_default="the planner's own effort",
        help="Effort to prove the plan best, worth about so many seconds of an ordinary core; "
        "counted, not timed. Not enough: the best plan is printed with its bound.",
    ),
]


def effort_of(seconds: float | None, rate: float, otherwise: float) -> float:
    """Return the effort that ``seconds`` are worth; ``otherwise`` where none are given."""
    return otherwise if seconds is None else seconds * rate
