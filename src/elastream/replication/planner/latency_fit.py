"""Least-squares polynomials through measured response times (paper 004, section 7.3)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from elastream.model.checks import count, non_negative
from elastream.model.errors import ProblemError
from elastream.replication.model.latency import Polynomial


def fit_polynomial(points: Iterable[tuple[float, float]], *, degree: int) -> Polynomial:
    """Return the polynomial of ``degree`` nearest to ``points``: (tuples per second, milliseconds).

    It minimises the sum of squared differences. At least ``degree + 1`` different rates are needed;
    otherwise the polynomial is not unique.
    """
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
