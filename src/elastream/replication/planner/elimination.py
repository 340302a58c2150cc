"""Minimum of a sum of tables over a few variables each: bucket elimination (min-sum).

To eliminate a variable, add up the tables that contain it and take the minimum over it. That leaves
a table (a message) over its neighbours. If that table would be too large, the tables are split into
groups and each group is minimised separately (mini-buckets): the sum of the minima is at most the
minimum of the sum, so the result is still a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from elastream.replication.planner.configurations import Floats

_LARGEST = 60_000_000
"""Maximum number of entries of a sum of tables before it is split into groups."""
_AT_ONCE = 2_000_000
"""Number of entries added up at once."""
_IN_CACHE = 32_000
"""The same if the result has two axes or more, because it is traversed repeatedly."""


_EACH = 10_000
"""Fixed overhead of a table, in values."""


class Effort:
    """Number of values left to compute; started work is finished, so it may fall below 0.

    A value is one table entry that an elimination adds up. Each bound of the search counts as the
    number of values that take the same time. So equal problems have equal plans on any machine,
    however busy it is.
    """

    __slots__ = ("left",)

    def __init__(self, values: float) -> None:
        self.left = values

    @property
    def spent(self) -> bool:
        """Whether the limit is reached."""
        return self.left <= 0

    def spend(self, values: int) -> None:
        """Count the values of a computed table."""
        self.left -= values + _EACH


class Factor:
    """A table over variables; ``scope`` is ascending and gives the axes of ``table``."""

    __slots__ = ("scope", "table")

    def __init__(self, scope: tuple[int, ...], table: Floats) -> None:
        if list(scope) != sorted(scope):
            scope, table = (scope[1], scope[0]), table.T
        self.scope = scope
        self.table = table


Memo = dict[tuple[int, frozenset[Factor]], list[Factor]]
"""Messages by variable and bucket: those far from the kept variable are shared by many calls."""


def elimination_order(
    scopes: Iterable[tuple[int, ...]], sizes: Sequence[int], kept: int
) -> list[int]:
    """Return all variables but ``kept``, greedily by the size of the sum of their tables."""
    scopes_left = set(scopes)
    others = set(range(len(sizes))) - {kept}
    order = []
    while others:
        joined = {v: {u for scope in scopes_left if v in scope for u in scope} for v in others}
        variable = min(others, key=lambda v: (prod(sizes[u] for u in joined[v]), v))
        scopes_left = {scope for scope in scopes_left if variable not in scope}
        scopes_left.add(tuple(sorted(joined[variable] - {variable})))
        others.remove(variable)
        order.append(variable)
    return order


def least_over_others(
    factors: list[Factor],
    order: Sequence[int],
    sizes: Sequence[int],
    kept: int,
    memo: Memo,
    effort: Effort,
) -> Floats:
    """Return for each value of ``kept`` a lower bound on the minimum over all other variables.

    They are eliminated in ``order``; the bound holds for any order.
    """
    for variable in order:
        bucket = [factor for factor in factors if variable in factor.scope]
        key = (variable, frozenset(bucket))
        if key not in memo:
            memo[key] = messages_of(bucket, variable, sizes, effort)
        factors = [factor for factor in factors if variable not in factor.scope] + memo[key]
    total = np.zeros(sizes[kept])
    for factor in factors:
        total = total + factor.table
    return total


def messages_of(
    bucket: list[Factor], variable: int, sizes: Sequence[int], effort: Effort
) -> list[Factor]:
    """Return the minima over ``variable`` of the sum of ``bucket``, in groups if necessary."""
    own = [factor for factor in bucket if factor.scope == (variable,)]
    joint = sorted((f for f in bucket if len(f.scope) > 1), key=lambda f: -f.table.size)
    groups: list[list[Factor]] = []
    for factor in joint:
        for group in groups:
            if _size([*group, factor], sizes) <= _LARGEST:
                group.append(factor)
                break
        else:
            groups.append([factor])
    if not groups:
        groups = [[]]
    share = 1 / len(groups)
    shared = [Factor(factor.scope, factor.table * share) for factor in own]
    effort.spend(sum(_size(group, sizes) * len(group) for group in groups))
    return [_minimum(group + shared, variable, sizes) for group in groups]


def _minimum(group: list[Factor], variable: int, sizes: Sequence[int]) -> Factor:
    scope = tuple(sorted({v for factor in group for v in factor.scope} - {variable}))
    tables = [_aligned(factor, (variable, *scope)) for factor in group]
    if not scope:
        total = sum(tables, np.zeros(sizes[variable]))
        return Factor((), np.asarray(total.min()))
    at_once = _AT_ONCE
    if len(scope) > 1:
        at_once, tables = _IN_CACHE, [np.ascontiguousarray(table) for table in tables]
    step = max(1, at_once // prod(sizes[v] for v in scope))
    least = np.full([sizes[v] for v in scope], np.inf)
    for start in range(0, sizes[variable], step):
        total, *more = (table[start : start + step] for table in tables)
        for each in more:
            total = total + each
        np.minimum(least, total.min(axis=0), out=least)
    return Factor(scope, least)


def _aligned(factor: Factor, order: tuple[int, ...]) -> Floats:
    """Return the table with an axis for each variable of ``order``; missing ones have size 1."""
    scope = factor.scope
    axes = [scope.index(variable) for variable in order if variable in scope]
    table = factor.table.transpose(axes)
    return table[tuple(slice(None) if variable in scope else None for variable in order)]


def _size(factors: list[Factor], sizes: Sequence[int]) -> int:
    return prod(sizes[v] for v in {v for factor in factors for v in factor.scope})
