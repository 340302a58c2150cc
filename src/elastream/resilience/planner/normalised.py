"""The normalised space (section 3.3 of paper 003): the ideal hyperplane is ``sum(x) = 1``.

With ``l_k`` the load of stream k over all operators and ``C_T`` the capacity of all nodes, the
variable is ``x_k = l_k r_k / C_T``. The weight of stream k on node i, ``w_ik``, is the share
``l_jk / l_k`` of its operators over its share ``C_i / C_T`` of the capacity. A node is not
overloaded at x if ``W_i x <= 1``.

With a lower bound B' (section 6.1) set ``x = B' + (1 - sum(B')) y``: node i is not overloaded at y
if ``V_i y <= 1`` with ``V_i = W_i (1 - sum(B') - a) / (1 - W_i B' - a_i)``, where operators take
``a_i`` of node i's capacity at any rates and ``a`` of all. The ideal set is again ``sum(y) <= 1``.
The load that cannot be placed is in W from the start, and part of the ideal set.

Streams without cost have no axis. If such a stream has a cost where it crosses, the operators at
its ends are inseparable: it may have any rate, so a placement that separates them tolerates
nothing. Nodes of negligible capacity hold no operator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from elastream.model.plan import Infeasible
from elastream.resilience.model.problem import ResilientProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FULL = 1e-12
"""A node with a smaller free share of its capacity at the lower bound counts as full."""
_NEGLIGIBLE = 1e-12
"""A node with a smaller share of the capacity holds nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """A problem in the normalised space; m operators, n nodes, d streams, e arcs."""

    shares: Floats
    """m x d: the operator's share of each stream's load; each column of these and of ``base``
    together sums to 1."""
    capacity: Floats
    """n: the node's share of the capacity; sums to 1."""
    bound: Floats
    """d: the lower bound B'."""
    ends: Ints
    """e x 2: the operators at the two ends of each arc."""
    transfers: Floats
    """e x d: the cost of an arc at each end if it crosses, as a share of each stream's load."""
    nodes: Ints
    """n: the numbers of the nodes in the problem."""
    streams: Ints
    """d: the numbers of the streams in the problem."""
    barred: Ints
    """b x 2: the operators at the ends of streams that must not cross."""
    always: Floats
    """m: the operator's load at any rates, as a share of the capacity of all nodes."""
    base: Floats
    """n x d: the node's share of each stream's load wherever operators are."""

    @property
    def room(self) -> float:
        """Share of the ideal set left above the lower bound, along every axis."""
        return float(1.0 - self.bound.sum() - self.always.sum())

    @property
    def transfer_costs(self) -> bool:
        """Whether streams between nodes have a cost."""
        return bool(self.transfers.any()) or len(self.barred) > 0

    @property
    def sizes(self) -> Floats:
        """Rows that order operators: their shares, and as one more column their fixed load."""
        return np.column_stack((self.shares, self.always))

    def inseparable(self) -> Ints:
        """Return the group of each operator, numbered from 0; a group must stay together."""
        first = list(range(len(self.shares)))
        for one, other in self.barred.tolist():
            kept, dropped = sorted((first[one], first[other]))
            first = [kept if each == dropped else each for each in first]
        return np.unique(first, return_inverse=True)[1].astype(np.int64)

    def merged(self, labels: Ints) -> Space:
        """Return the space with the operators of each label merged into one."""
        shares = np.zeros((int(labels.max()) + 1, self.shares.shape[1]))
        np.add.at(shares, labels, self.shares)
        always: Floats = np.bincount(labels, self.always).astype(np.float64)
        ends, barred = labels[self.ends], labels[self.barred]
        apart = ends[:, 0] != ends[:, 1]
        return replace(
            self,
            shares=shares,
            always=always,
            ends=ends[apart],
            transfers=self.transfers[apart],
            barred=barred[barred[:, 0] != barred[:, 1]],
        )

    def weights(self, place: Ints) -> Floats:
        """Return W, a row for each node, of a placement by node, including transfers.

        A node at either end of a crossing stream that must not cross has infinite weights.
        """
        loads = self.base.copy()
        np.add.at(loads, place, self.shares)
        crossing = place[self.ends[:, 0]] != place[self.ends[:, 1]]
        for end in (0, 1):
            np.add.at(loads, place[self.ends[crossing, end]], self.transfers[crossing])
        parted = place[self.barred]
        loads[parted[parted[:, 0] != parted[:, 1]].ravel()] = np.inf
        return loads / self.capacity[:, None]

    def without_transfers(self) -> Space:
        """Return the same space without the cost of streams between nodes."""
        return replace(self, transfers=np.zeros_like(self.transfers), barred=self.barred[:0])

    def taken(self, place: Ints) -> Floats:
        """Return the share of each node's capacity that its operators use at any rates."""
        taken: Floats = np.bincount(place, self.always, len(self.capacity)) / self.capacity
        return taken

    def above_bound(self, place: Ints) -> Floats | None:
        """Return V, or ``None`` if a node is full at the lower bound."""
        weights = self.weights(place)
        if not np.isfinite(weights).all():
            return None
        slack = 1.0 - weights @ self.bound - self.taken(place)
        if slack.min() <= FULL:
            return None
        return weights * (self.room / slack)[:, None]

    def plane_distance(self, place: Ints) -> float:
        """Return the distance from the lower bound to the nearest node hyperplane."""
        weights = self.weights(place)
        if not np.isfinite(weights).all():
            return 0.0
        norms = np.linalg.norm(weights, axis=1)
        loaded = norms > 0
        slack = 1.0 - weights[loaded] @ self.bound - self.taken(place)[loaded]
        return float((slack / norms[loaded]).min())


def normalise(problem: ResilientProblem) -> Space | Infeasible:
    """Return the problem in the normalised space, or why every placement is infeasible."""
    load = np.array(problem.load, dtype=np.float64)
    capacity = np.array(problem.capacity, dtype=np.float64)
    total = float(capacity.sum())
    if total == 0:
        return Infeasible("no node has any capacity")
    fixed = np.array(problem.fixed or [0.0] * len(load), dtype=np.float64)
    base = np.zeros((len(capacity), load.shape[1]))
    if problem.unplaced:
        base[:] = problem.unplaced
    totals = load.sum(axis=0) + base.sum(axis=0)
    streams = np.flatnonzero(totals)
    nodes = np.flatnonzero(capacity > _NEGLIGIBLE * total)
    totals = totals[streams]
    least = np.array(problem.lower_bound, dtype=np.float64)[streams]
    full = np.setdiff1d(np.flatnonzero(base.any(axis=1)), nodes)
    if len(full):
        return Infeasible(f"node {full[0]} has work that cannot be placed, and no capacity for it")
    needed = float(totals @ least + fixed.sum())
    if needed >= total * (1 - _NEGLIGIBLE):
        return Infeasible(
            f"the lower bound is not inside the ideal set: it needs {needed:.6g} of the "
            f"capacity {total:.6g} of all nodes"
            + (f", {fixed.sum():.6g} of it at any rates" if fixed.any() else "")
        )
    kept = capacity[nodes]
    with np.errstate(under="ignore"):
        transfers = np.array([arc.transfer for arc in problem.arcs], dtype=np.float64)
        transfers = transfers.reshape(len(problem.arcs), load.shape[1])
        ends = np.array([arc[:2] for arc in problem.arcs], dtype=np.int64).reshape(-1, 2)
        without_load = np.setdiff1d(np.arange(load.shape[1]), streams)
        return Space(
            shares=load[:, streams] / totals,
            capacity=kept / kept.sum(),
            bound=totals * least / total,
            ends=ends,
            transfers=transfers[:, streams] / totals,
            nodes=nodes,
            streams=streams,
            barred=ends[transfers[:, without_load].any(axis=1)],
            always=fixed / total,
            base=base[np.ix_(nodes, streams)] / totals,
        )
