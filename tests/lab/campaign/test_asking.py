from __future__ import annotations

import pytest

from elastream_lab.campaign.asking import request_for
from elastream_lab.campaign.scenario import PHASES, Request


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase != "steady"])
@pytest.mark.parametrize("executors", [1, 2, 3])
def test_every_phase_but_steady_has_a_request_that_changes_something(
    phase: str, executors: int
) -> None:
    asked = request_for(phase, executors, 3)
    assert asked is not None
    assert asked.executors is None or 1 <= asked.executors <= 3
    assert asked.executors != executors


def test_what_brings_a_phase_is_asked_for_at_once_where_it_can_be() -> None:
    assert request_for("growing", 2, 3) == Request(3)
    assert request_for("growing", 3, 3) == Request(2)
    assert request_for("releasing", 3, 3) == Request(2)
    assert request_for("moving", 3, 3) == Request(None)
    assert request_for("moving", 1, 3) == Request(3)
    assert request_for("steady", 2, 3) is None
