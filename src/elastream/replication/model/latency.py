"""Response time of one replica against its input rate (paper 004, sections 4.2.1, 7.2 and 7.3).

Two models: a queue with Poisson arrivals and exponential service, as in section 7.2, and a
polynomial through measured points, as in section 7.3. Neither knows the node it runs on: the
evaluation divides by the node's speed-up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from elastream.model.checks import Number, count, non_negative
from elastream.model.errors import ProblemError


@dataclass(frozen=True, slots=True)
class Queue:
    """An M/M/1 queue."""

    service_rate: Number
    """Tuples a second that one replica can process on a node of speed-up 1."""

    def latency_ms(self, rate: float) -> float | None:
        """Return the mean time in queue and service at ``rate``; None where it is saturated."""
        spare = self.service_rate - rate
        return 1000.0 / spare if spare > 0 else None


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A polynomial in the replica's input rate; it never saturates."""

    coefficients: tuple[Number, ...]
    """Milliseconds; the constant first, then those of rate, rate squared, and so on."""

    def latency_ms(self, rate: float) -> float | None:
        """Return the value at ``rate``."""
        value = 0.0
        for coefficient in reversed(self.coefficients):
            value = value * rate + coefficient
        return value


Latency = Queue | Polynomial


def fit_polynomial(points: Iterable[tuple[float, float]], *, degree: int) -> Polynomial:
    """Return the polynomial of ``degree`` nearest to ``points``: (tuples per second, milliseconds).

    Section 7.3. It minimises the sum of squared differences. At least ``degree + 1`` different
    rates are needed; otherwise the polynomial is not unique.
    """
    import numpy as np

    degree = count("degree", degree)
    pairs = [
        (
            float(non_negative(f"points[{i}][0]", rate)),
            float(non_negative(f"points[{i}][1]", latency)),
        )
        for i, (rate, latency) in enumerate(points)
    ]
    rates, latencies = np.array(pairs).reshape(-1, 2).T
    different = len(np.unique(rates))
    if different <= degree:
        needed = f"{different} different rates do not fix a polynomial of degree {degree}"
        raise ProblemError("points", needed)
    domain = [rates.min(), rates.max()] if different > 1 else [rates[0] - 1, rates[0] + 1]
    fitted = np.polynomial.Polynomial.fit(rates, latencies, degree, domain=domain)
    return Polynomial(tuple(fitted.convert().coef.tolist()))
