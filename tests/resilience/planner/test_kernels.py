from __future__ import annotations

import numpy as np
import pytest
from tests.both_forms import compare_forms

from elastream.resilience.model.problem import ResilientProblem
from elastream.resilience.planner import refined
from elastream.resilience.planner.planner import resilient


def test_the_exchange_of_operators_is_the_same_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refined, "_LOG2_POINTS", 4)
    monkeypatch.setattr(refined, "_KICKS", 3)
    compared = compare_forms(monkeypatch)
    load = np.random.default_rng(3).random((12, 3))
    resilient(ResilientProblem.of(load.tolist(), [1.0] * 9))
    assert compared.keys() == {"_improve"}
