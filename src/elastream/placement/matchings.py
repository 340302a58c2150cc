"""Matchings in bipartite graphs: maximum value, and maximum size.

:func:`most_valuable` gives every row a column of its own, or every column a row if there are fewer
columns. Rows are assigned one after the other along the shortest augmenting path, with dual values
that keep reduced costs non-negative (Jonker and Volgenant 1987; rectangular as in Crouse 2016).
O(n² m) for n rows and m columns, n <= m.

:func:`most_pairs` is Hopcroft and Karp (1973): shortest augmenting paths, many at a time. O(edges *
sqrt(nodes)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elastream.placement.kernel import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def most_valuable(value: Floats) -> tuple[Ints, Ints]:
    """Return the matched rows, ascending, and the column of each, at the largest sum."""
    rows, columns = value.shape
    if columns < rows:
        matched, partners = most_valuable(value.T)
        order = np.argsort(partners)
        return partners[order], matched[order]
    cost = np.ascontiguousarray(-value, dtype=np.float64)
    run = _assign.for_operations(float(rows) * rows * columns)
    return np.arange(rows), run(cost)


@kernel
def _assign(cost: Floats) -> Ints:
    """Return the column of each row, at the least sum."""
    rows, columns = cost.shape
    row_dual, column_dual = np.zeros(rows), np.zeros(columns)
    shortest = np.empty(columns)
    path = np.full(columns, -1)
    column_of, row_of = np.full(rows, -1), np.full(columns, -1)
    reached = np.zeros(columns, dtype=np.bool_)
    for start in range(rows):
        shortest[:] = np.inf
        reached[:] = False
        row, least, end = start, 0.0, -1
        while end < 0:
            nearest, distance = -1, np.inf
            for column in range(columns):
                if reached[column]:
                    continue
                through = least + cost[row, column] - row_dual[row] - column_dual[column]
                if through < shortest[column]:
                    path[column] = row
                    shortest[column] = through
                near = shortest[column]
                if near < distance or (near == distance and row_of[column] < 0):
                    nearest, distance = column, near
            least = distance
            reached[nearest] = True
            if row_of[nearest] < 0:
                end = nearest
            else:
                row = row_of[nearest]
        row_dual[start] += least
        for column in range(columns):
            if reached[column] and column != end:
                row_dual[row_of[column]] += least - shortest[column]
                column_dual[column] -= least - shortest[column]
        column = end
        while True:
            row = path[column]
            row_of[column] = row
            column_of[row], column = column, column_of[row]
            if row == start:
                break
    return column_of


def most_pairs(starts: Ints, right: Ints, rights: int) -> Ints:
    """Return the partner on the right of each node on the left, or -1.

    The edges of node i on the left lead to ``right[starts[i] : starts[i + 1]]``.
    """
    run = _match.for_operations(4.0 * (len(starts) + len(right)))
    return run(starts, right, rights)


@kernel
def _match(starts: Ints, right: Ints, rights: int) -> Ints:
    lefts = len(starts) - 1
    partner, owner = np.full(lefts, -1), np.full(rights, -1)
    for node in range(lefts):
        for edge in range(starts[node], starts[node + 1]):
            if owner[right[edge]] < 0:
                partner[node], owner[right[edge]] = right[edge], node
                break
    level = np.empty(lefts, dtype=np.int64)
    following = np.empty(lefts, dtype=np.int64)
    queue = np.empty(lefts, dtype=np.int64)
    stack = np.empty(lefts, dtype=np.int64)
    while True:
        length = 0
        for node in range(lefts):
            level[node] = -1
            if partner[node] < 0:
                level[node] = 0
                queue[length] = node
                length += 1
        head, free_ahead = 0, False
        while head < length:
            node = queue[head]
            head += 1
            for edge in range(starts[node], starts[node + 1]):
                other = owner[right[edge]]
                if other < 0:
                    free_ahead = True
                elif level[other] < 0:
                    level[other] = level[node] + 1
                    queue[length] = other
                    length += 1
        if not free_ahead:
            return partner
        following[:] = starts[:-1]
        for root in range(lefts):
            if partner[root] >= 0:
                continue
            depth = 0
            stack[0] = root
            while depth >= 0:
                node = stack[depth]
                edge = following[node]
                if edge == starts[node + 1]:
                    depth -= 1
                    continue
                following[node] += 1
                other = owner[right[edge]]
                if other < 0:
                    for rung in range(depth, -1, -1):
                        taken = stack[rung]
                        to = right[following[taken] - 1]
                        partner[taken], owner[to] = to, taken
                    break
                if level[other] == level[node] + 1:
                    depth += 1
                    stack[depth] = other
