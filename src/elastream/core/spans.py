"""How long the phases of a change take: what the last one of its kind took, so the next will.

Only for whoever looks on; nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastream.core.state import LoopState, Phase

__all__ = ["Spans", "expected_left_s", "phase_name", "with_spans"]


@dataclass(frozen=True, slots=True)
class Spans:
    """Seconds that phases took."""

    last: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Of the last change of each kind that has ended, phase by phase, in order."""
    present: Mapping[str, float] = field(default_factory=dict)
    """Of the change under way, those of its phases that are over."""
    since_ms: int | None = None
    """When the present phase began."""


def phase_name(phase: Phase) -> str:
    """Return what a phase is called: ``steady``, ``growing``, ``moving`` and so on."""
    return type(phase).__name__.lower()


def with_spans(before: LoopState, after: LoopState) -> LoopState:
    """Return the state after a step with what its phases took, where one has ended in it."""
    if type(before.phase) is type(after.phase):
        return after
    spans = after.spans
    change = getattr(before.phase, "change", None)
    present = dict(spans.present)
    if change is not None:
        name = phase_name(before.phase)
        present[name] = present.get(name, 0.0) + after.passed_s(spans.since_ms)
    if change is not None and getattr(after.phase, "change", None) is None:
        spans = replace(spans, last={**spans.last, change.kind: present})
        present = {}
    return replace(after, spans=replace(spans, present=present, since_ms=after.now_ms))


def expected_left_s(state: LoopState) -> float | None:
    """Return how much longer the change under way will take if it goes like the last of its kind.

    ``None`` where nothing is under way, or none of its kind has ended. Of a phase that takes
    longer than last time nothing is expected to be left.
    """
    change = getattr(state.phase, "change", None)
    last = None if change is None else state.spans.last.get(change.kind)
    if last is None:
        return None
    name, spans = phase_name(state.phase), state.spans
    over = spans.present.keys() - {name}
    spent_s = spans.present.get(name, 0.0) + state.passed_s(spans.since_ms)
    return sum(
        max(0.0, seconds - spent_s) if phase == name else seconds
        for phase, seconds in last.items()
        if phase not in over
    )
