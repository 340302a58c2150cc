"""Goals for programs that a test runs: ``--goal tests.launch.goals:eager``."""

from __future__ import annotations

from elastream import Utilisation

__all__ = ["eager"]

eager = Utilisation(target=0.02, hysteresis=0.01)
"""Any load at all calls for another executor."""
