from __future__ import annotations

from typing import Any

import pytest

from elastream.control.policy import Policy
from elastream.model.errors import ProblemError


def test_only_the_most_executors_must_be_given() -> None:
    policy = Policy(max_executors=4)
    assert policy.min_executors == 1
    assert policy.high_mark == pytest.approx(0.8)
    assert policy.low_mark == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("min_executors", {"min_executors": 5}),
        ("min_executors", {"min_executors": 0}),
        ("max_executors", {"max_executors": 0}),
        ("max_executors", {"max_executors": 2.5}),
        ("target_utilisation", {"target_utilisation": 0}),
        ("target_utilisation", {"target_utilisation": 1.1, "hysteresis": 0}),
        ("target_utilisation", {"target_utilisation": float("nan")}),
        ("hysteresis", {"hysteresis": 0.7}),
        ("hysteresis", {"target_utilisation": 0.95, "hysteresis": 0.1}),
        ("hysteresis", {"hysteresis": -0.1}),
        ("cooldown_s", {"cooldown_s": -1}),
        ("cooldown_s", {"cooldown_s": float("inf")}),
        ("patience", {"patience": 0}),
        ("tries", {"tries": 0}),
        ("replans", {"replans": -1}),
        ("smoothing_s", {"smoothing_s": 0}),
        ("tau", {"tau": -0.1}),
        ("planner", {"planner": "best"}),
        ("moves_per_batch", {"moves_per_batch": 0}),
        ("bytes_per_batch", {"bytes_per_batch": 0}),
        ("grow_timeout_s", {"grow_timeout_s": 0}),
        ("action_timeout_s", {"action_timeout_s": 10}),
        ("trigger_s", {"trigger_s": 0}),
        ("catch_up_s", {"catch_up_s": "soon"}),
    ],
)
def test_a_wrong_setting_is_refused_by_name(field: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ProblemError) as caught:
        Policy(**{"max_executors": 4, **settings})
    assert caught.value.field == field
    assert "\n" not in str(caught.value)
