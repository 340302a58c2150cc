"""Decide: whether a need that was found becomes a change.

A need must have lasted for ``patience`` batches, and ``cooldown_s`` must have passed since the last
change ended, well or not; until then it is held back, and the log says so with the same figures.
"""

from __future__ import annotations

from dataclasses import replace

from elastream.control.analyse import Assessment, analyse
from elastream.control.events import Log
from elastream.control.prepare import pursued
from elastream.control.state import Intent, LoopState, Transition, noted

__all__ = ["decided"]


def decided(state: LoopState) -> Transition:
    """Decide what to do with nothing under way."""
    policy = state.policy
    found = analyse(state.load, state.executors, policy)
    signal = state.signal.heard(found.need)
    state = replace(state, signal=signal)
    if found.need == "hold":
        return state, (_held(state, found, found.reason),)
    wish = f"{found.need} to {found.executors} wanted, {found.reason}"
    rest_s = _rest_s(state)
    if rest_s > 0:
        return state, (_held(state, found, f"cooling down, {rest_s:.1f} s left; {wish}"),)
    if signal.batches < policy.patience:
        counted = f"batch {signal.batches} of {policy.patience} to say so"
        return state, (_held(state, found, f"{counted}; {wish}"),)
    intent = Intent(found.need, len(state.executors), found.executors, found.reason)
    if policy.advise_only:
        log = _held(state, found, f"advice is being worked out; {wish}")
    else:
        log = noted(
            state,
            found.need,
            f"{found.need} to {found.executors}: {found.reason}",
            utilisation=found.utilisation,
            figures=found.figures,
        )
    state, instructions = pursued(state, intent)
    return state, (log, *instructions)


def _held(state: LoopState, found: Assessment, reason: str) -> Log:
    return noted(state, "hold", reason, utilisation=found.utilisation, figures=found.figures)


def _rest_s(state: LoopState) -> float:
    if state.changed_at_ms is None or state.load.at_ms is None:
        return 0.0
    return state.policy.cooldown_s - (state.load.at_ms - state.changed_at_ms) / 1000
