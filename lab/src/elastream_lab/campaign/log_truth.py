"""Whether the decision log shows what happened: losses, how changes ended, its own figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from elastream.core.decisions import Decision

_BEGINS = ("scale-out", "scale-in", "rebalance", "move")
_ENDS = ("done", "abandon")
_WAITED = re.compile(r"\b(?:after|for|in) (\d+(?:\.\d+)?) s\b")
_LOST = re.compile(r"executors? (.+?) (?:was|were) lost")
_RELEASED = re.compile(r"executors? (.+?) holds? no state that is needed: released")


def lies(
    decisions: Sequence[Decision],
    killed: Iterable[str],
    *,
    cut: int,
    most: int,
    lasted_s: float,
) -> Iterator[str]:
    """Yield what the log does not tell, or shows wrong.

    ``killed`` are the executors that the loop knew and did not tell to go, each once for every time
    that one of this id was killed: it is lost, or was released before the loss was seen. ``cut``
    applications were killed themselves, and may leave a change open; ``most`` is the bound on
    executors. All of it lasted ``lasted_s``, whatever the
    clock said: nothing can have been waited for that was longer.
    """
    lost = [name for decision in decisions for name in _named(_LOST, decision.reason)]
    released = [name for decision in decisions for name in _named(_RELEASED, decision.reason)]
    for executor in killed:
        gone = next((names for names in (lost, released) if executor in names), None)
        if gone is None:
            yield f"executor {executor} was killed, and no line tells that it was lost"
        else:
            gone.remove(executor)
    yield from _open_changes(decisions, cut)
    for decision in decisions:
        if decision.executors > most:
            yield f"{decision.executors} executors, above {most}: {decision.reason}"
        if decision.kind == "detach" and decision.figures.get("failed"):
            yield f"the loop failed: {decision.reason}"
        if any(float(seconds) > lasted_s + 1 for seconds in _WAITED.findall(decision.reason)):
            yield f"a wait this long is impossible: {decision.reason}"
        if decision.kind == "done":
            yield from _wrong_figures(decision)


def _named(pattern: re.Pattern[str], reason: str) -> list[str]:
    match = pattern.search(reason)
    return [] if match is None else re.findall(r"\d+", match[1])


def _open_changes(decisions: Sequence[Decision], cut: int) -> Iterator[str]:
    """Yield the changes that began and did not end, beyond those that a dead driver left."""
    begun: Decision | None = None
    left: list[Decision] = []
    for decision in decisions:
        if decision.kind in (*_BEGINS, "attach", "detach") and begun is not None:
            left.append(begun)
            begun = None
        if decision.kind in _BEGINS:
            begun = decision
        elif decision.kind in _ENDS:
            begun = None
    left += [] if begun is None else [begun]
    yield from (
        f"a change has no end: {decision.kind}, {decision.reason}" for decision in left[cut:]
    )


def _wrong_figures(done: Decision) -> Iterator[str]:
    figures = done.figures
    said = re.search(r"from (\d+) to (\d+) executors? done: (\d+) tasks? moved", done.reason)
    names = ("executors_before", "executors_after", "tasks_moved")
    if said is None or tuple(map(int, said.groups())) != tuple(figures[name] for name in names):
        yield f"a line and its figures differ: {done.reason}, {dict(figures)}"
    if figures["tasks_ahead"] > figures["tasks_moved"]:
        yield f"more tasks went to a copy than moved: {dict(figures)}"
