"""Branch limit for HiGHS: the effort of an integer program, counted instead of timed.

A branch solves a linear program again, which takes longer with more variables. So effort is counted
in variables times branches; an ordinary core does about 100,000 per second. The work of HiGHS
before its first branch is not counted and grows with the program: seconds for a few thousand
variables. So a program that could hardly branch is skipped. Equal problems have equal plans on any
machine, however busy it is.
"""

from __future__ import annotations

_FEWEST = 20
"""With fewer branches a program is not worth starting."""


def branches_of(effort: float, variables: int) -> int:
    """Return the number of branches for a program with this many variables; 0: skip the program."""
    branches = int(effort // max(1, variables))
    return branches if branches >= _FEWEST else 0
