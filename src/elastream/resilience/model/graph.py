"""Query graphs: operators with cost and selectivity, connected by streams.

Section 2.2 of paper 003. Every operator has one output stream, named after it. A time-window join
(section 6.2) pairs each tuple with the tuples of the other stream that are at most ``window`` away;
its cost and its selectivity are per pair. Each of its sides may be several streams, for instance
the partitions of one operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastream.model.checks import Number, abbreviate, count, positive, zero_or_more
from elastream.model.errors import ProblemError

_KINDS = ("linear", "join")


@dataclass(frozen=True, slots=True)
class GraphOperator:
    """One operator, the smallest unit that can be placed."""

    name: str
    """Its name, and the name of its output stream."""
    inputs: tuple[str, ...]
    """The streams it reads, at least one; for a join those of its left side come first."""
    cost: Number
    """CPU cycles per tuple, or per pair of tuples for a join."""
    selectivity: Number | None
    """Output tuples per input tuple, or per pair; ``None`` if unknown."""
    window: Number | None = None
    """Maximum distance of two tuples of a join, above 0; ``None`` for all other operators."""
    fixed: Number = 0
    """CPU cycles per unit of time at any rates, even at none."""
    left: int = 1
    """Number of a join's inputs that belong to its left side."""

    @property
    def kind(self) -> str:
        """Kind of operator, as in a graph file."""
        return _KINDS[self.window is not None]

    @classmethod
    def of(
        cls,
        name: object,
        inputs: object,
        cost: object,
        selectivity: object = 1,
        *,
        kind: object = "linear",
        window: object = None,
        fixed: object = 0,
        left: object = None,
        field: str = "",
    ) -> GraphOperator:
        """Return the validated operator; ``field`` is the prefix of the name of a wrong field."""
        if kind not in _KINDS:
            known = " or ".join(_KINDS)
            raise ProblemError(f"{field}kind", f"{abbreviate(kind)} is not known; give {known}")
        streams = _names(f"{field}inputs", inputs)
        if not streams:
            raise ProblemError(f"{field}inputs", f"operator {abbreviate(name)} reads no stream")
        return cls(
            _name(f"{field}name", name),
            streams,
            zero_or_more(f"{field}cost", cost),
            None if selectivity is None else zero_or_more(f"{field}selectivity", selectivity),
            _window(field, kind == "join", window),
            zero_or_more(f"{field}fixed", fixed),
            _left(field, kind == "join", len(streams), left),
        )


@dataclass(frozen=True, slots=True)
class QueryGraph:
    """Operators and the streams between them, without a cycle."""

    inputs: tuple[str, ...]
    """Names of the external streams, at least one."""
    operators: tuple[GraphOperator, ...]
    """At least one, in any order; all names, including the inputs', are different."""
    transfer_cost: Number = 0
    """CPU cycles per tuple at each end when it crosses from one node to another."""
    order: tuple[int, ...] = ()
    """The operators' numbers in topological order."""

    @classmethod
    def of(
        cls,
        inputs: object,
        operators: Sequence[GraphOperator],
        transfer_cost: object = 0,
        *,
        field: str = "",
    ) -> QueryGraph:
        """Return the validated graph; ``field`` is the prefix of the name of a wrong field."""
        names = _names(f"{field}inputs", inputs)
        if not names:
            raise ProblemError(f"{field}inputs", "is empty; give at least one input stream")
        if not operators:
            raise ProblemError(f"{field}operators", "is empty; give at least one operator")
        places = [f"{field}inputs[{i}]" for i in range(len(names))]
        places += [f"{field}operators[{j}].name" for j in range(len(operators))]
        seen: set[str] = set()
        for place, name in zip(places, [*names, *(o.name for o in operators)], strict=True):
            if name in seen:
                raise ProblemError(place, f"{abbreviate(name)} is the name of another stream")
            seen.add(name)
        for j, operator in enumerate(operators):
            for i, name in enumerate(operator.inputs):
                if name not in seen:
                    place = f"{field}operators[{j}].inputs[{i}]"
                    raise ProblemError(place, f"no stream is named {abbreviate(name)}")
        cost = zero_or_more(f"{field}transfer_cost", transfer_cost)
        return cls(names, tuple(operators), cost, _order(field, operators))

    @property
    def arcs(self) -> tuple[tuple[int, int], ...]:
        """The streams between operators, as pairs (from, to) of their numbers."""
        numbers = {operator.name: j for j, operator in enumerate(self.operators)}
        return tuple(
            (numbers[name], j)
            for j, operator in enumerate(self.operators)
            for name in operator.inputs
            if name in numbers
        )


def _left(field: str, is_join: bool, streams: int, left: object) -> int:
    if not is_join:
        if left is not None:
            raise ProblemError(f"{field}left", "is given, but the operator is not a join")
        return 1
    if left is None:
        if streams != 2:
            raise ProblemError(
                f"{field}inputs", f"a join reads two streams, not {streams}, unless left is given"
            )
        return 1
    number = count(f"{field}left", left, least=1)
    if number >= streams:
        raise ProblemError(f"{field}left", f"{number} of {streams} inputs leave no right side")
    return number


def _window(field: str, is_join: bool, window: object) -> Number | None:
    if not is_join:
        if window is not None:
            raise ProblemError(f"{field}window", "is given, but the operator is not a join")
        return None
    if window is None:
        raise ProblemError(f"{field}window", "is missing; a join needs one")
    return positive(f"{field}window", window)


def _order(field: str, operators: Sequence[GraphOperator]) -> tuple[int, ...]:
    """Return the operators in topological order (Kahn), or name one on a cycle."""
    numbers = {operator.name: j for j, operator in enumerate(operators)}
    waits = [sum(name in numbers for name in operator.inputs) for operator in operators]
    readers: list[list[int]] = [[] for _ in operators]
    for j, operator in enumerate(operators):
        for name in operator.inputs:
            if name in numbers:
                readers[numbers[name]].append(j)
    order = [j for j, streams in enumerate(waits) if streams == 0]
    for j in order:  # grows during the loop
        for reader in readers[j]:
            waits[reader] -= 1
            if waits[reader] == 0:
                order.append(reader)
    if len(order) < len(operators):
        _refuse_cycle(field, operators, numbers, set(order))
    return tuple(order)


def _refuse_cycle(
    field: str, operators: Sequence[GraphOperator], numbers: dict[str, int], done: set[int]
) -> None:
    """Walk upstream from an operator that is never ready until one repeats: a cycle."""
    path = [next(j for j in range(len(operators)) if j not in done)]
    while path[-1] not in path[:-1]:
        upstream = (numbers[name] for name in operators[path[-1]].inputs if name in numbers)
        path.append(next(j for j in upstream if j not in done))
    names = [operators[j].name for j in reversed(path[path.index(path[-1]) :])]
    place = f"{field}operators[{path[-1]}].inputs"
    raise ProblemError(place, f"the streams form a cycle: {abbreviate(' -> '.join(names))}")


def _names(field: str, names: object) -> tuple[str, ...]:
    if not isinstance(names, Sequence) or isinstance(names, str | bytes):
        raise ProblemError(field, f"{abbreviate(names)} is not a list of names")
    return tuple(_name(f"{field}[{i}]", name) for i, name in enumerate(names))


def _name(field: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ProblemError(field, f"{abbreviate(name)} is not a name")
    return name
