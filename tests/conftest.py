"""Settings shared by all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Shared machines stall now and then: a slow example is not a fault, so none has a deadline.
settings.register_profile(
    "thorough", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", parent=settings.get_profile("thorough"), max_examples=150)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "thorough"))
