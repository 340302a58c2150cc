"""Self-similar bursts: the b-model, a multiplicative cascade.

The packets of an interval are split between its halves as b to 1 - b, the larger part left or right
at random, and so on down to single steps. The series bursts at every time scale, like the traces
that figure 2 of paper 003 shows; the nearer b is to 1, the harder. With k levels and a mean of 1
its variance is ``(1 + (2 b - 1)²)^k - 1``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def bursty_rates(rng: np.random.Generator, log2_steps: int, bias: float) -> NDArray[np.float64]:
    """Return a self-similar series of mean 1 with ``2 ** log2_steps`` steps; ``bias`` is b."""
    rates = np.ones(1)
    for _ in range(log2_steps):
        left = np.where(rng.random(len(rates)) < 0.5, bias, 1 - bias)
        rates = np.stack([2 * left * rates, 2 * (1 - left) * rates], axis=1).ravel()
    return rates
