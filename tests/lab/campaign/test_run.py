"""A short slice of the campaign: ``elastream trial`` runs as much of it as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastream_lab.campaign.drawing import draw
from elastream_lab.campaign.run import run_scenario

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.mark.parametrize("number", range(4))
def test_a_random_application_with_random_faults_is_exact_and_leaves_nothing(
    tmp_path: Path, number: int
) -> None:
    assert run_scenario(draw(2026, number), tmp_path / "run").problems == ()
