"""Scrambled Sobol points: they fill a cube more evenly than random points.

Coordinate k of point i is the bitwise sum of the direction numbers of k selected by the Gray code
of i (Antonov and Saleev 1979). The direction numbers are those of Joe and Kuo (2008). Scrambling
multiplies them by a random lower triangular matrix and adds a random shift (Matoušek 1998), so that
every scrambling gives an unbiased estimate. For equal seeds the points equal those of
``scipy.stats.qmc.Sobol``.

The table has 32 coordinates. Further coordinates are random.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BITS = 30

# fmt: off
_POLYNOMIALS = (
    (3, 1), (7, 1, 3), (11, 1, 3, 1), (13, 1, 1, 1), (19, 1, 1, 3, 3), (25, 1, 3, 5, 13),
    (37, 1, 1, 5, 5, 17), (41, 1, 1, 5, 5, 5), (47, 1, 1, 7, 11, 19), (55, 1, 1, 5, 1, 1),
    (59, 1, 1, 1, 3, 11), (61, 1, 3, 5, 5, 31), (67, 1, 3, 3, 9, 7, 49),
    (91, 1, 1, 1, 15, 21, 21), (97, 1, 3, 1, 13, 27, 49), (103, 1, 1, 1, 15, 7, 5),
    (109, 1, 3, 1, 15, 13, 25), (115, 1, 1, 5, 5, 19, 61), (131, 1, 3, 7, 11, 23, 15, 103),
    (137, 1, 3, 7, 13, 13, 15, 69), (143, 1, 1, 3, 13, 7, 35, 63), (145, 1, 3, 5, 9, 1, 25, 53),
    (157, 1, 3, 1, 13, 9, 35, 107), (167, 1, 3, 1, 5, 27, 61, 31), (171, 1, 1, 5, 11, 19, 41, 61),
    (185, 1, 3, 5, 3, 3, 13, 69), (191, 1, 1, 7, 13, 1, 19, 1), (193, 1, 3, 7, 5, 13, 19, 59),
    (203, 1, 1, 3, 9, 25, 29, 41), (211, 1, 3, 5, 13, 23, 1, 55), (213, 1, 3, 7, 3, 13, 59, 17),
)
# fmt: on
"""For each coordinate but the first a primitive polynomial, its coefficients as bits, and the first
direction numbers (new-joe-kuo-6.21201)."""

TABULATED = 1 + len(_POLYNOMIALS)
"""Number of coordinates with direction numbers."""


def sobol_points(coordinates: int, log2_points: int, *, seed: int) -> NDArray[np.float64]:
    """Return ``2 ** log2_points`` points of the unit cube, one per row."""
    [rng] = np.random.default_rng(seed).spawn(1)
    even = min(coordinates, TABULATED)
    powers = 2 ** np.arange(_BITS, dtype=np.uint32)
    shift = rng.integers(2, size=(even, _BITS), dtype=np.uint32) @ powers
    matrices = np.tril(rng.integers(2, size=(even, _BITS, _BITS), dtype=np.uint32), -1)
    matrices += np.eye(_BITS, dtype=np.uint32)
    directions = np.array([_directions(k) for k in range(even)], dtype=np.uint32)
    bits = (directions[:, :, None] // powers[::-1]) % 2
    scrambled = (np.einsum("kpq,kjq->kjp", matrices, bits) % 2) @ powers[::-1]
    points = shift[None, :]
    for bit in range(log2_points):
        points = np.concatenate([points, points[::-1] ^ scrambled[:, bit]])
    others = rng.random((len(points), coordinates - even))
    return np.hstack([points / 2.0**_BITS, others])


def _directions(coordinate: int) -> list[int]:
    """Return the direction numbers of a coordinate, as fractions of ``2 ** _BITS``."""
    if coordinate == 0:
        return [1 << (_BITS - 1 - bit) for bit in range(_BITS)]
    polynomial, *numbers = _POLYNOMIALS[coordinate - 1]
    degree = polynomial.bit_length() - 1
    for bit in range(degree, _BITS):
        number = numbers[bit - degree]
        for k in range(1, degree + 1):
            if polynomial >> (degree - k) & 1:
                number ^= numbers[bit - k] << k
        numbers.append(number)
    return [number << (_BITS - 1 - bit) for bit, number in enumerate(numbers)]
