"""Least value of a sum of tables over a few variables each: bucket elimination (min-sum).

A variable is eliminated by adding up the tables it occurs in and taking the minimum over it, which
leaves a table (a message) over its neighbours. Where that table would be too large, the tables are
split into groups and each group is minimised by itself (mini-buckets): the sum of the minima is at
most the minimum of the sum, so the result is still a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from elastream.replication.planner.configurations import Floats
from elastream.replication.planner.effort import Effort

__all__ = ["Factor", "Memo", "elimination_order", "least_over_others", "messages_of"]

_LARGEST = 60_000_000
"""Entries of a sum of tables before it is split into groups."""
_AT_ONCE = 2_000_000
"""Entries that are added up at once."""
_IN_CACHE = 32_000
"""The same where the result has two axes or more: it is gone through again and again."""


class Factor:
    """A table over variables; ``scope`` is ascending, the axes of ``table`` follow it."""

    __slots__ = ("scope", "table")

    def __init__(self, scope: tuple[int, ...], table: Floats) -> None:
        if list(scope) != sorted(scope):
            scope, table = (scope[1], scope[0]), table.T
        self.scope = scope
        self.table = table


Memo = dict[tuple[int, frozenset[Factor]], list[Factor]]
"""Messages by variable and bucket: what is far from the kept variable is the same for many."""


def elimination_order(
    scopes: Iterable[tuple[int, ...]], sizes: Sequence[int], kept: int
) -> list[int]:
    """Return the variables but ``kept``, each time the one whose tables add up to the smallest."""
    left = set(scopes)
    others = set(range(len(sizes))) - {kept}
    order = []
    while others:
        joined = {v: {u for scope in left if v in scope for u in scope} for v in others}
        variable = min(others, key=lambda v: (prod(sizes[u] for u in joined[v]), v))
        left = {scope for scope in left if variable not in scope}
        left.add(tuple(sorted(joined[variable] - {variable})))
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
    """Return, for each value of ``kept``, a lower bound of the least sum over all others.

    They are eliminated in ``order``; whichever it is the bound holds.
    """
    for variable in order:
        bucket = [factor for factor in factors if variable in factor.scope]
        known = (variable, frozenset(bucket))
        if known not in memo:
            memo[known] = messages_of(bucket, variable, sizes, effort)
        factors = [factor for factor in factors if variable not in factor.scope] + memo[known]
    total = np.zeros(sizes[kept])
    for factor in factors:
        total = total + factor.table
    return total


def messages_of(
    bucket: list[Factor], variable: int, sizes: Sequence[int], effort: Effort
) -> list[Factor]:
    """Return the minima over ``variable`` of the sum of ``bucket``, in groups where need be."""
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
    """Return the table with an axis for each variable of ``order``, of size 1 where it has none."""
    scope = factor.scope
    axes = [scope.index(variable) for variable in order if variable in scope]
    table = factor.table.transpose(axes)
    return table[tuple(slice(None) if variable in scope else None for variable in order)]


def _size(factors: list[Factor], sizes: Sequence[int]) -> int:
    return prod(sizes[v] for v in {v for factor in factors for v in factor.scope})
