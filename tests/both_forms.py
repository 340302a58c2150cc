"""Every kernel run in both forms: what a planner gets is compared before it gets it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from elastream.placement.kernel import Kernel


def compare_forms(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Let every kernel run plain and compiled; return how often each was compared."""
    compared: dict[str, int] = {}

    def both(kernel: Kernel[Any, Any], _operations: float) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            others = deepcopy(args)
            plain, compiled = kernel.plain(*others), kernel.compiled(*args)
            name = kernel.plain.__name__
            assert _equal(plain, compiled), f"{name} returned {plain} and compiled {compiled}"
            assert _equal(others, args), f"{name} left other values in its arguments"
            compared[name] = compared.get(name, 0) + 1
            return compiled

        return run

    monkeypatch.setattr(Kernel, "for_operations", both)
    return compared


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f"))
