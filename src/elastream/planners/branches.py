"""How far HiGHS may branch: the effort of an integer program, counted and not timed.

A branch solves a linear program again, so it takes the longer the more variables there are; effort
is counted in variables times branches. A program for which it does not suffice to branch once is
left out, which keeps programs away that would take minutes before they branch at all. Equal
problems so have equal plans on any machine, however busy it is.
"""

from __future__ import annotations

__all__ = ["branches_of"]


def branches_of(effort: float, variables: int) -> int:
    """Return how many branches a program of so many variables may have; 0: leave it out."""
    return int(effort // max(1, variables))
