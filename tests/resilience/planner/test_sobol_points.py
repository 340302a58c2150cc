from __future__ import annotations

import numpy as np
import pytest
from scipy.stats.qmc import Sobol, discrepancy

from elastream.resilience.planner.sobol_points import TABULATED, sobol_points


@pytest.mark.parametrize("coordinates", [1, 2, 7, TABULATED])
@pytest.mark.parametrize("seed", [0, 5])
def test_the_points_are_those_of_scipy(coordinates: int, seed: int) -> None:
    theirs = Sobol(coordinates, scramble=True, rng=seed).random_base2(9)
    assert np.array_equal(sobol_points(coordinates, 9, seed=seed), theirs)


def test_points_are_more_even_than_random_ones() -> None:
    random = np.random.default_rng(1).random((256, 4))
    assert discrepancy(sobol_points(4, 8, seed=1)) < discrepancy(random) / 4


def test_coordinates_beyond_the_table_are_uniform_and_the_others_are_unchanged() -> None:
    points = sobol_points(TABULATED + 3, 12, seed=2)
    assert np.array_equal(points[:, :TABULATED], sobol_points(TABULATED, 12, seed=2))
    assert points.mean(axis=0) == pytest.approx(0.5, abs=0.03)
    assert 0 <= points.min() < points.max() < 1
