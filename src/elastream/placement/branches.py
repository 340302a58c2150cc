"""How far HiGHS may branch: the effort of an integer program, counted and not timed.

A branch solves a linear program again, so it takes the longer the more variables there are; effort
is counted in variables times branches; an ordinary core does some 100,000 a second. What HiGHS does
before its first branch is not counted, and takes the longer the larger the program is: seconds for
some thousand variables. So a program that could hardly branch is left out. Equal problems have
equal plans on any machine, however busy it is.
"""

from __future__ import annotations

__all__ = ["branches_of"]

_FEWEST = 20
"""Fewer branches are not worth a program's start."""


def branches_of(effort: float, variables: int) -> int:
    """Return how many branches a program of so many variables may have; 0: leave it out."""
    branches = int(effort // max(1, variables))
    return branches if branches >= _FEWEST else 0
