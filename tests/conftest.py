"""Settings shared by all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Shared machines stall now and then: a slow example is not a fault, so none has a deadline.
# The suite tries the same examples every time, so that a commit fails for what it changed;
# `make test-slow` goes looking for new ones.
settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=2000,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", parent=settings.get_profile("thorough"), derandomize=False)
settings.register_profile("quick", parent=settings.get_profile("thorough"), max_examples=150)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "thorough"))
