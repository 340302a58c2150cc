"""The option ``--state`` of the benchmarks that fill a state first."""

from __future__ import annotations

import re
from typing import Final

import typer

STATE: Final = typer.Option(
    "--state", help="How large the state is: small (3 MB), large (537 MB), both, or as 64M, 2G."
)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def states_of(text: str) -> tuple[int, ...]:
    """Return the sizes that are asked for, in bytes."""
    from elastream.model.checks import abbreviate
    from elastream.model.errors import ProblemError
    from elastream_lab.benchmarks.migration.bench import STATES

    if text == "both":
        return tuple(STATES.values())
    size = re.fullmatch(r"(\d{1,15})([KMG]?)", text.strip())
    if text not in STATES and size is None:
        known = ", ".join([*STATES, "both"])
        raise ProblemError(
            "--state", f"{abbreviate(text)} is not one of {known}, nor a size such as 64M"
        )
    found = STATES[text] if size is None else int(size[1]) * _UNITS[size[2]]
    if found < _UNITS["M"]:
        raise ProblemError("--state", f"{abbreviate(text)} is too small; the least is 1M")
    return (found,)
