"""Exit codes of the command, fixed by the plan-file contract (``docs/reference/plan-files.md``)."""

from __future__ import annotations

from typing import Final

BROKEN: Final = 1
"""elastream itself is at fault."""
BAD_INPUT: Final = 2
"""A file, a field or an option is wrong; nothing was changed."""
INFEASIBLE: Final = 3
"""The problem is well formed and has no feasible plan."""
INTERRUPTED: Final = 130
"""Stopped by Ctrl-C."""
