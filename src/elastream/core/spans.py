"""How long the phases of a change take: what the last one of its kind took, so the next will.

Only for whoever looks on; nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import replace

from elastream.core.state import LoopState


def with_spans(before: LoopState, after: LoopState) -> LoopState:
    """Return the state after a step with what its phases took, where one has ended in it."""
    if type(before.phase) is type(after.phase):
        return after
    spans = after.spans
    change = before.phase.change
    present = dict(spans.present)
    if change is not None:
        name = before.phase.name
        present[name] = present.get(name, 0.0) + after.passed_s(spans.since_ms)
    if change is not None and after.phase.change is None:
        spans = replace(spans, last={**spans.last, change.kind: present})
        present = {}
    return replace(after, spans=replace(spans, present=present, since_ms=after.now_ms))


def expected_left_s(state: LoopState) -> float | None:
    """Return how much longer the change under way will take if it goes like the last of its kind.

    ``None`` where nothing is under way, or none of its kind has ended. Of a phase that takes
    longer than last time nothing is expected to be left.
    """
    change = state.phase.change
    last = None if change is None else state.spans.last.get(change.kind)
    if last is None:
        return None
    name, spans = state.phase.name, state.spans
    over = spans.present.keys() - {name}
    spent_s = spans.present.get(name, 0.0) + state.passed_s(spans.since_ms)
    return sum(
        max(0.0, seconds - spent_s) if phase == name else seconds
        for phase, seconds in last.items()
        if phase not in over
    )
