"""``--bytes-per-s`` of ``elastream plan``: the order and the time of a plan's transfers."""

from __future__ import annotations

from typing import Annotated

import typer

from elastream.model.checks import Number, abbreviate
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import StepPlan

BytesPerSecond = Annotated[
    str | None,
    typer.Option(
        "--bytes-per-s",
        metavar="RATE[,RATE...]",
        help="Also print how state travels: what each node's link carries, in and out.",
    ),
]
MovesPerBatch = Annotated[
    int | None, typer.Option(min=1, help="With --bytes-per-s: most tasks that move in a batch.")
]
BytesPerBatch = Annotated[
    float | None, typer.Option(min=0, help="With --bytes-per-s: most state that moves in a batch.")
]


def forecast_fields(
    problem: StepProblem,
    plan: StepPlan,
    bytes_per_s: str | None,
    moves_per_batch: int | None,
    bytes_per_batch: float | None,
) -> dict[str, object]:
    """Return the field ``forecast`` where a bandwidth is given, else nothing."""
    if bytes_per_s is None:
        return {}
    from elastream.placement.transfer.forecast import forecast

    rates = [_rate(text) for text in bytes_per_s.split(",")]
    found = forecast(
        problem,
        plan,
        rates[0] if len(rates) == 1 else rates,
        moves_per_batch=moves_per_batch,
        bytes_per_batch=bytes_per_batch,
    )
    batches = [
        {
            "seconds": batch.seconds,
            "tasks": [move.task for move in batch.moves],
            "phases": [
                {
                    "seconds": phase.seconds,
                    "transfers": [
                        {
                            "from": transfer.source,
                            "to": transfer.target,
                            "state": transfer.amount,
                            "parts": [{"task": p.task, "state": p.amount} for p in transfer.parts],
                        }
                        for transfer in phase.transfers
                    ],
                }
                for phase in batch.phases
            ],
        }
        for batch in found.batches
    ]
    return {"forecast": {"seconds": found.seconds, "batches": batches}}


def _rate(text: str) -> Number:
    try:
        rate = float(text)
    except ValueError:
        raise ProblemError("--bytes-per-s", f"{abbreviate(text)} is not a number") from None
    return int(rate) if rate.is_integer() else rate
