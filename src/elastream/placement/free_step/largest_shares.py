"""A placement from a mixture of contents: every node gets the content of its largest share.

Where the mixture splits contents this decides, nodes with the largest shares first. A task that
several of the contents hold stays at home if it can, or else goes to a copy of its state. Tasks in
no content are left for later.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elastream.placement.free_step.content_shares import Floats
from elastream.placement.free_step.contents import Contents
from elastream.placement.free_step.whole_step import Ints, WholeStep

_NONE, _HALF = 1e-6, 0.5
"""Shares up to the first value are ignored; an idle node is used from the second on."""


def largest_shares(
    step: WholeStep, contents: Contents, share: Floats
) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the placement with the largest share on each node, and the nodes in use.

    Tasks in none of these are at -1. Unused nodes are opened while more are allowed.
    """
    place = np.full(len(step.work), -1)
    open_nodes = np.zeros(len(step.nodes), dtype=np.bool_)
    done = np.zeros(step.holders + 1, dtype=np.bool_)
    idle, used = step.holders, 0
    ranked = np.argsort(-share, kind="stable")
    for content in ranked[share[ranked] > _NONE].tolist():
        node = kind = int(contents.kind[content])
        tasks = contents.tasks[contents.ends[content] : contents.ends[content + 1]]
        if kind == step.holders:
            node, idle = idle, idle + 1
            done[kind] = share[content] < _HALF or node >= len(step.nodes)
        if done[kind]:
            continue
        done[kind] = kind < step.holders
        if len(tasks) and used < step.allowed:
            better = ~step.away(tasks, node) & step.away(tasks, place[tasks])
            free = tasks[(place[tasks] < 0) | (step.home[tasks] == node) | better]
            place[free] = node
            open_nodes[node] = True
            used += 1
    open_nodes[np.flatnonzero(~open_nodes)[: step.allowed - used]] = True
    return place, open_nodes
