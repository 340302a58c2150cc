"""How a change ends: done, abandoned, or disturbed and planned anew."""

from __future__ import annotations

from dataclasses import replace

from elastream.control.state import (
    Intent,
    Locating,
    LoopState,
    Progress,
    Transition,
    noted,
)
from elastream.model.checks import Number

__all__ = ["abandoned", "completed", "disturbed"]


def completed(state: LoopState, intent: Intent, progress: Progress) -> Transition:
    """Report what was reached; the cooldown begins."""
    moved = f"{progress.tasks_moved} tasks moved in {progress.batches} batches"
    now = len(state.executors)
    reason = f"{intent.change} from {intent.before} to {now} executors done: {moved}"
    return state.steady(), (
        noted(state, "done", reason, figures=_figures(state, intent, progress)),
    )


def abandoned(state: LoopState, intent: Intent, why: str, progress: Progress) -> Transition:
    """Give up: what moved stays moved, the rest stays put, the next plan starts from the truth."""
    stays = f"{progress.tasks_moved} tasks moved and stay moved, the rest stays put"
    reason = f"{intent.change} given up: {why}; {stays}"
    figures = _figures(state, intent, progress)
    return state.steady(), (noted(state, "abandon", reason, figures=figures),)


def disturbed(state: LoopState, intent: Intent, why: str, progress: Progress) -> Transition:
    """Plan anew once the next batch has shown the truth, a bounded number of times."""
    if intent.change == "move":
        return abandoned(state, intent, f"{why}, and the placement asked for needs it", progress)
    if intent.replans >= state.policy.replans:
        many = f"{why}, after {intent.replans} new plans"
        return abandoned(state, intent, many, progress)
    again = replace(intent, replans=intent.replans + 1)
    log = noted(state, "replan", f"{intent.change} is planned anew: {why}")
    return replace(state, phase=Locating(again, state.load.at_ms, progress)), (log,)


def _figures(state: LoopState, intent: Intent, progress: Progress) -> dict[str, Number]:
    figures: dict[str, Number] = {
        "executors_before": intent.before,
        "executors_after": len(state.executors),
        "executors_wanted": intent.executors,
        "tasks_moved": progress.tasks_moved,
        "state_bytes_moved": progress.bytes_moved,
        "batches": progress.batches,
        "replans": intent.replans,
    }
    if progress.worst_batch_ms is not None:
        figures["worst_batch_ms"] = round(progress.worst_batch_ms, 1)
    if progress.median_batch_ms_before is not None:
        figures["median_batch_ms_before"] = round(progress.median_batch_ms_before, 1)
    return figures
