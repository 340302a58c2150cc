from __future__ import annotations

import numpy as np
import pytest
from tests.both_forms import compare_forms
from tests.foresight.test_sequence import whole_chain

from elastream.foresight.ahead.planner import free_ahead
from elastream.foresight.ahead.problem import FreeAheadProblem, Future
from elastream.foresight.mtm.growth import GrowthSettings
from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem
from elastream.foresight.mtm.values import partition_values
from elastream.foresight.oms.planner import sequence
from elastream.foresight.oms.pool import CutPool
from elastream.foresight.oms.prices import Ascent
from elastream.foresight.oms.problem import SequenceProblem
from elastream.model.migration import StepProblem


def test_every_kernel_of_foresight_is_the_same_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = compare_forms(monkeypatch)
    random = np.random.default_rng(2)
    work, state = random.integers(5, 30, (2, 11)).tolist()
    current = [[0, 4], [4, 7], [7, 11]]
    matrix = [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]
    chain = MigrationChain.of([3, 4, 5], matrix, 0.5)
    pool = GrowthSettings(most_listed=0, pool=20, parents=4, rounds=2)
    partition_values(ProjectionProblem.of(work, state, 0.6, chain), settings=pool)
    targets = [(4, 0.6), (2, 0.3), (5, 0.9)]
    migrations = SequenceProblem.of(work, state, current, targets, 0.8)
    sequence(migrations)
    ways = whole_chain(migrations)
    Ascent(ways).move(0)
    cuts = CutPool(ways, 100)
    for number, cut in enumerate([(0, 3, 6, 9, 11), (0, 6, 11), (0, 2, 4, 6, 8, 11)], start=1):
        cuts.add(number, cut)
    cuts.best()
    futures = [Future.of(0.5, [(3, 0.4), (4, 0.4)]), Future.of(0.5, [(2, 0.4)])]
    step = StepProblem.of(work, state, current, 4, 0.25)
    free_ahead(FreeAheadProblem.of_futures(step, futures))
    assert compared.keys() >= {
        "best_links",
        "cheapest_of_pool",
        "fill_targets",
        "followed",
        "lazy_step",
        "least_moved",
        "pair_costs",
        "pair_cuts",
        "pair_values",
        "search",
    }
