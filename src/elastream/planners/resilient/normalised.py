"""The normalised space (section 3.3 of paper 003): the ideal hyperplane is ``sum(x) = 1``.

With ``l_k`` the load of stream k over all operators and ``C_T`` the capacity of all nodes, the
variable is ``x_k = l_k r_k / C_T``. Operator j has the share ``l_jk / l_k`` of stream k, node i
the share ``C_i / C_T`` of the capacity, and the weight of stream k on node i is the quotient of
the two shares summed up there, ``w_ik``. A node bears x where ``W_i x <= 1``.

With a lower bound B' (section 6.1) put ``x = B' + (1 - sum(B')) y``: node i bears y where
``V_i y <= 1`` with ``V_i = W_i (1 - sum(B')) / (1 - W_i B')``, and the ideal set is again
``sum(y) <= 1``. So a lower bound only scales rows, and volumes need no second formula.

Streams that cost nothing limit nothing: they have no axis here. Nodes whose capacity is nothing
beside the others' bear nothing: they are left out and hold no operator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from elastream.model.plan import Infeasible
from elastream.model.resilience.problem import ResilientProblem

__all__ = ["FULL", "Floats", "Ints", "Space", "normalise"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FULL = 1e-12
"""A node with a smaller part of its capacity left at the lower bound bears nothing above it."""
_NEGLIGIBLE = 1e-12
"""A node with a smaller share of the capacity holds nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """A problem in the normalised space; m operators, n nodes, d streams, e arcs."""

    shares: Floats
    """m x d: the operator's share of each stream's load; each column sums to 1."""
    capacity: Floats
    """n: the node's share of the capacity; sums to 1."""
    bound: Floats
    """d: the lower bound B'."""
    ends: Ints
    """e x 2: the operators at the two ends of each arc."""
    transfers: Floats
    """e x d: what an arc costs at each end if it crosses, as a share of each stream's load."""
    nodes: Ints
    """n: the numbers of the nodes in the problem."""
    streams: Ints
    """d: the numbers of the streams in the problem."""

    @property
    def room(self) -> float:
        """How much of the ideal set is left above the lower bound, along every axis."""
        return float(1.0 - self.bound.sum())

    @property
    def transfer_costs(self) -> bool:
        """Whether streams between nodes cost anything."""
        return bool(self.transfers.any())

    def weights(self, place: Ints) -> Floats:
        """Return W, a row for each node, of a placement by node; transfers are counted."""
        loads = np.zeros((len(self.capacity), self.shares.shape[1]))
        np.add.at(loads, place, self.shares)
        crossing = place[self.ends[:, 0]] != place[self.ends[:, 1]]
        for end in (0, 1):
            np.add.at(loads, place[self.ends[crossing, end]], self.transfers[crossing])
        return loads / self.capacity[:, None]

    def without_transfers(self) -> Space:
        """Return the same space with streams between nodes for free."""
        return replace(self, transfers=np.zeros_like(self.transfers))

    def above_bound(self, weights: Floats) -> Floats | None:
        """Return V, or ``None`` where a node bears nothing above the lower bound."""
        slack = 1.0 - weights @ self.bound
        if slack.min() <= FULL:
            return None
        return weights * (self.room / slack)[:, None]

    def plane_distance(self, weights: Floats) -> float:
        """Return the distance from the lower bound to the nearest node hyperplane."""
        norms = np.linalg.norm(weights, axis=1)
        loaded = norms > 0
        slack = 1.0 - weights[loaded] @ self.bound
        return float((slack / norms[loaded]).min())


def normalise(problem: ResilientProblem) -> Space | Infeasible:
    """Return the problem in the normalised space, or why no placement can bear anything."""
    load = np.array(problem.load, dtype=np.float64)
    capacity = np.array(problem.capacity, dtype=np.float64)
    total = float(capacity.sum())
    if total == 0:
        return Infeasible("no node has any capacity")
    totals = load.sum(axis=0)
    streams = np.flatnonzero(totals)
    nodes = np.flatnonzero(capacity > _NEGLIGIBLE * total)
    totals = totals[streams]
    least = np.array(problem.lower_bound, dtype=np.float64)[streams]
    needed = float(totals @ least)
    if needed >= total * (1 - _NEGLIGIBLE):
        return Infeasible(
            f"the lower bound is not inside the ideal set: it needs {needed:.6g} of the "
            f"capacity {total:.6g} of all nodes"
        )
    kept = capacity[nodes]
    with np.errstate(under="ignore"):
        transfers = np.array([arc.transfer for arc in problem.arcs], dtype=np.float64)
        transfers = transfers.reshape(len(problem.arcs), load.shape[1])[:, streams] / totals
        return Space(
            shares=load[:, streams] / totals,
            capacity=kept / kept.sum(),
            bound=totals * least / total,
            ends=np.array([arc[:2] for arc in problem.arcs], dtype=np.int64).reshape(-1, 2),
            transfers=transfers,
            nodes=nodes,
            streams=streams,
        )
