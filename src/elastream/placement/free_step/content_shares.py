"""The cheapest mixture of contents: a linear or integer program over some contents.

Every holder has a default content. A share of any other may replace it, and shares on idle nodes
may be added::

    minimise   cost of the defaults + extra cost of each share over the default it replaces
    such that  every priced task is covered, or pays a fine
               the shares of a holder sum to at most 1, those on idle nodes to at most their number
               at most ``allowed`` nodes hold anything

A content costs the state of its tasks that load it there. A task that is not priced need not be
covered: it is assumed to find room wherever it goes, and costs its state unless a node keeps it;
one with a copy is assumed to find room there, and costs nothing. Defaults have no column, so nodes
for which nothing better is known do not burden the program; defaults taken from its last solution
keep it near the next. Dual values of the covering rows are prices of tasks, those of the other rows
rents of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastream.placement.branches import branches_of
from elastream.placement.free_step.contents import Contents
from elastream.placement.free_step.whole_step import Ints, WholeStep
from elastream.placement.linear_programs import Rows, integer_program, linear_program

Floats = NDArray[np.float64]

_SCALE = 1e4
"""The fine in the solver's units."""
_PIVOT_STEPS = 5
"""Inner steps per row of a pivot of the simplex method."""
_MOST_BRANCHES = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """A solution of the linear program."""

    share: Floats
    """Share of each content, 0 to 1; of contents for idle nodes up to their number."""
    price: Floats
    """Dual value of each priced task; the first price of the others."""
    rent: Floats
    """Minimum worth of a useful content on each kind of node."""
    cost: float
    """State that moves, plus fines."""
    uncovered: float
    """Number of tasks that pay the fine."""
    steps: int
    """Inner steps that the solver took, by our count."""

    @property
    def whole(self) -> bool:
        """Whether no content is split."""
        return bool((np.abs(self.share - np.rint(self.share)) < 1e-6).all())


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """Costs and rows; one column for each content that is not a default."""

    columns: Ints
    cost: Floats
    fixed_cost: float
    """Cost of the defaults."""
    cover: Rows
    """By how much each priced task is covered more, or less, than by default, and the required
    amount."""
    most: Floats
    """Upper limit of each column, if no other is for the same kind of node."""
    kinds: Ints
    """The kinds of node with several columns."""
    on_kind: Rows
    """The kind of each of these columns."""
    used: Rows
    """Number of nodes that each column uses more, or less, than by default: one row."""


def mixture(
    step: WholeStep,
    contents: Contents,
    default: Ints,
    priced: Ints,
    *,
    fine: int,
    most_steps: int,
) -> Mixture | None:
    """Return the cheapest mixture, or ``None`` if that takes too many steps.

    ``default[i]`` is the content of holder i if no other is chosen.
    """
    program = _program(step, contents, default, priced)
    count, width = len(priced), len(program.columns)
    if count + width == 0:
        return _defaults_alone(step, contents, default, program)
    fined = np.arange(count)
    cover = Rows.of(
        np.concatenate([program.cover.row, fined]),
        np.concatenate([program.cover.column, width + fined]),
        np.concatenate([program.cover.value, np.ones(count)]),
        program.cover.least,
        program.cover.most,
    )
    rows = cover + program.on_kind + program.used
    length = len(rows.most)
    scale = _SCALE / fine
    found = linear_program(
        scale * np.concatenate([program.cost, np.full(count, fine)]),
        np.concatenate([program.most, np.full(count, np.inf)]),
        rows,
        presolve=False,
        iterations=most_steps // (_PIVOT_STEPS * length) + 1,
    )
    if found is None:
        return None
    price = step.first_price.astype(np.float64)
    price[priced] = found.row_dual[:count] / scale
    rents = -found.row_dual[count:] / scale
    used = np.diff(contents.ends) > 0
    rent = np.append(contents.worth(step, price)[default] - rents[-1] * used[default], 0.0)
    rent[program.kinds] += rents[:-1]
    np.add.at(rent, contents.kind[program.columns], -found.upper_dual[:width] / scale)
    return Mixture(
        share=_shares(step, contents, default, program, found.x),
        price=price,
        rent=rent + rents[-1],
        cost=found.cost / scale + program.fixed_cost,
        uncovered=float(found.x[width:].sum()),
        steps=found.iterations * length * _PIVOT_STEPS,
    )


def _defaults_alone(
    step: WholeStep, contents: Contents, default: Ints, program: _Program
) -> Mixture:
    """Return the only mixture if there is nothing to choose and nothing to cover."""
    price = step.first_price.astype(np.float64)
    return Mixture(
        share=_shares(step, contents, default, program, price[:0]),
        price=price,
        rent=np.append(contents.worth(step, price)[default], 0.0),
        cost=program.fixed_cost,
        uncovered=0.0,
        steps=1,
    )


def whole_mixture(
    step: WholeStep,
    contents: Contents,
    default: Ints,
    priced: Ints,
    *,
    effort: float,
) -> Floats | None:
    """Return the shares of the cheapest mixture found that splits no content, if any.

    Also None if the program is too large for the ``effort``.
    """
    program = _program(step, contents, default, priced)
    branches = min(_MOST_BRANCHES, branches_of(effort, len(program.columns)))
    if branches == 0:
        return None
    found = integer_program(
        program.cost / max(1.0, float(np.abs(program.cost).max(initial=0)) / 1e6),
        program.cover + program.on_kind + program.used,
        branches=branches,
        gap=1e-9,
    )
    return None if found.x is None else _shares(step, contents, default, program, found.x)


def _program(step: WholeStep, contents: Contents, default: Ints, priced: Ints) -> _Program:
    count = len(contents.kind)
    row = np.full(len(step.work), -1)
    row[priced] = np.arange(len(priced))
    owner, rows = contents.owner, row[contents.tasks]
    owner, rows = owner[rows >= 0], rows[rows >= 0]
    first = np.searchsorted(owner, np.arange(count + 2))  # the last content is nothing
    worth = np.append(contents.worth(step, np.where(row >= 0, 0.0, step.first_price)), 0.0)
    used = np.append(np.diff(contents.ends) > 0, False).astype(np.float64)
    is_default = np.zeros(count, dtype=np.bool_)
    is_default[default] = True
    columns = np.flatnonzero(~is_default)
    kind = contents.kind[columns]
    instead_of = np.append(default, count)[kind]
    kind_limit = np.append(np.ones(step.holders), step.idle)
    several = np.bincount(kind, minlength=step.holders + 1) > 1
    shared = np.flatnonzero(several[kind])
    kind_row = np.cumsum(several) - 1
    more, columns_of_more = _entries(first, rows, columns)
    less, columns_of_less = _entries(first, rows, instead_of)
    covered = _entries(first, rows, default)[0]
    return _Program(
        columns=columns,
        cost=worth[instead_of] - worth[columns],
        fixed_cost=float(step.first_price[row < 0].sum() - worth[default].sum()),
        cover=Rows.of(
            np.concatenate([more, less]),
            np.concatenate([columns_of_more, columns_of_less]),
            np.repeat([1.0, -1.0], [len(more), len(less)]),
            1.0 - np.bincount(covered, minlength=len(priced)),
            np.full(len(priced), np.inf),
        ),
        most=np.where(several[kind], np.inf, kind_limit[kind]),
        kinds=np.flatnonzero(several),
        on_kind=Rows.of(kind_row[kind[shared]], shared, 1, -np.inf, kind_limit[several]),
        used=Rows.of(
            np.zeros(len(columns)),
            np.arange(len(columns)),
            used[columns] - used[instead_of],
            -np.inf,
            [step.allowed - used[default].sum()],
        ),
    )


def _entries(first: Ints, rows: Ints, contents: Ints) -> tuple[Ints, Ints]:
    """Return the rows of some contents, one after the other, and the content of each row."""
    sizes = first[contents + 1] - first[contents]
    whose = np.repeat(np.arange(len(contents)), sizes)
    offset = np.arange(len(whose)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rows[first[contents][whose] + offset], whose


def _shares(
    step: WholeStep, contents: Contents, default: Ints, program: _Program, x: Floats
) -> Floats:
    """Return the share of each content; the defaults get what the others leave."""
    share = np.zeros(len(contents.kind))
    share[program.columns] = x[: len(program.columns)]
    taken = np.bincount(contents.kind, weights=share, minlength=step.holders + 1)
    share[default] = 1 - taken[: step.holders]
    return share
