"""Tables between the configurations of operators joined by a stream, and costs-to-go.

They are built only after the relaxation has pruned the configurations: a table has one row for each
configuration of the source and one column for each of the target.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastream.replication.planner.configurations import Floats, Ints
from elastream.replication.planner.elimination import Effort, Factor, messages_of
from elastream.replication.planner.forms import Form
from elastream.replication.planner.instance import Instance


@dataclass(frozen=True, slots=True)
class StreamTables:
    """Tables of one stream over all pairs of configurations."""

    delay_ms: Floats
    """Equation 3."""
    cost: Floats
    """Equation 4."""
    crowded: NDArray[np.bool_]
    """Pairs that together exceed the room of a node."""


def stream_tables(instance: Instance) -> list[StreamTables]:
    """Return the tables of every stream."""
    tables = []
    for flow in instance.flows:
        source, target = instance.domains[flow.source], instance.domains[flow.target]
        farthest, paid = source.worst(instance.delay_ms), source.mean(instance.link_cost)
        crowded = np.zeros((len(source), len(target)), dtype=bool)
        for kind, capacity in enumerate(instance.capacity):
            taken = source.taken[:, kind]
            for slot in range(target.nodes.shape[1]) if taken.any() else ():
                node = target.nodes[:, slot]
                added = target.count[np.arange(len(target)), node] * target.use[:, kind]
                crowded |= (taken[:, node] > 0) & (taken[:, node] + added > capacity[node])
        cost = flow.rate * target.mean(paid.T).T
        tables.append(StreamTables(target.worst(farthest.T).T, cost, crowded))
    return tables


@dataclass(frozen=True, slots=True)
class CostToGo:
    """Lower bounds of a form, given the configurations of the first few operators.

    Operators are eliminated from last to first. The caller keeps the bound with operators 0 to t -
    1 chosen; to choose t, subtract the messages of t and add the factors of its bucket.
    """

    root: float
    """Lower bound with nothing chosen."""
    buckets: tuple[tuple[Factor, ...], ...]
    """Factors of each operator and earlier ones; the operator's axis is the last."""
    messages: tuple[tuple[Factor, ...], ...]
    """Minima of each operator's bucket over that operator."""

    def before(self, choice: NDArray[np.int32], bound: Floats, t: int) -> Floats:
        """Return the bounds of partial choices without the part that operator t will replace."""
        for message in self.messages[t]:
            bound = bound - message.table[tuple(choice[:, v] for v in message.scope)]
        return bound

    def all_next(self, choice: NDArray[np.int32], bound: Floats, t: int, cols: Ints) -> Floats:
        """Return the bounds after each of ``cols`` of operator t, one row per partial choice."""
        total = self.before(choice, bound, t)[:, None]
        for factor in self.buckets[t]:
            chosen = (choice[:, v] for v in factor.scope[:-1])
            if len(cols) == factor.table.shape[-1]:
                total = total + factor.table[tuple(chosen)]
            else:
                total = total + factor.table[(*(row[:, None] for row in chosen), cols)]
        return total

    def some_next(
        self, choice: NDArray[np.int32], bound: Floats, t: int, rows: Ints, cols: Ints
    ) -> Floats:
        """Return the bounds after configuration ``cols`` of operator t on partial ``rows``."""
        total: Floats = self.before(choice, bound, t)[rows]
        for factor in self.buckets[t]:
            total = total + factor.table[(*(choice[rows, v] for v in factor.scope[:-1]), cols)]
        return total


def cost_to_go(
    instance: Instance, tables: list[StreamTables], form: Form, effort: Effort
) -> CostToGo:
    """Eliminate the operators from last to first and keep the buckets and messages."""
    sizes = instance.sizes()
    waiting = [Factor((i,), form.unary(i, d)) for i, d in enumerate(instance.domains)]
    for e, (flow, table) in enumerate(zip(instance.flows, tables, strict=True)):
        worth = form.delay[e] * table.delay_ms + form.money * table.cost
        worth[table.crowded] = np.inf
        waiting.append(Factor((flow.source, flow.target), worth))
    buckets: list[tuple[Factor, ...]] = []
    messages: list[tuple[Factor, ...]] = []
    for variable in reversed(range(len(sizes))):
        bucket = [factor for factor in waiting if variable in factor.scope]
        sent = messages_of(bucket, variable, sizes, effort)
        waiting = [factor for factor in waiting if variable not in factor.scope] + sent
        buckets.append(tuple(bucket))
        messages.append(tuple(sent))
    root = float(sum(factor.table for factor in waiting))
    return CostToGo(root, tuple(reversed(buckets)), tuple(reversed(messages)))
