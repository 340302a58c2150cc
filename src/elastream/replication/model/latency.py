"""Response time of one replica against its input rate (paper 004, sections 4.2.1, 7.2 and 7.3).

Two models: a queue with Poisson arrivals and exponential service, as in section 7.2, and a
polynomial through measured points, as in section 7.3. Neither knows the node it runs on: the
evaluation divides by the node's speed-up.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastream.model.checks import Number


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
