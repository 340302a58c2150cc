"""Codes of reasons, for programs that read the log: a reason is a sentence, and may be reworded.

Every reason to refuse a request or to give a change up has one; a test compares these patterns with
the sentences in the source. What is held back has one where a guard, a pause, the cooldown or
patience holds it. ``…`` stands for what is filled in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

FILLED_IN: Final = "…"
GIVEN_UP: Final = " given up: "
"""Between the kind of a change and why it was given up; what has moved follows a semicolon."""

CODES: Final[Mapping[str, Mapping[str, str]]] = {
    "abandon": {
        "a change that was asked for is given up: …": "given-up-by-request",
        "a pause was …": "paused",
        "the loop leaves the application": "detached",
        "the policy only advises now": "advise-only",
        "it leads to … executors, and … to … are allowed now": "bounds-changed",
        "it waits for … alone, and … is wanted": "overtaken",
        "there is work to do again": "work-again",
        "its tasks have left with their queries": "tasks-left",
        "…, and the placement asked for needs it": "placement-impossible",
        "…, after … new plans": "planned-too-often",
        "executors failed: …": "executors-failed",
        "…, … alive after at most … s": "executors-missing",
        "no answer about executors in … s": "executors-unanswered",
        "no answer about the release in … s": "release-unanswered",
        "not released: …": "release-refused",
        "a plan failed: …": "plan-failed",
        "no plan in … s": "plan-late",
        "no plan: …": "plan-infeasible",
        "an executor was lost while it was planned": "executor-lost-in-planning",
        "executor … was lost": "executor-lost",
        "executors or tasks changed places while it was planned": "places-changed",
        "a task that no plan knew of is on executor …": "unknown-task",
        "… Real-time tasks would be on …": "slots-lacking",
        "… not moved in … tries": "not-moved",
        "tasks keep leaving their places, … at last": "places-do-not-hold",
        "query … has reported nothing for … s": "query-silent",
    },
    "refuse": {
        "a change was …; the policy only advises": "advise-only",
        "… executors were asked for; allowed are … to …": "outside-bounds",
        "0 executors were asked for, and the application has work to do": "work-to-do",
        "the placement asked for: task … is not known": "unknown-task",
        "the placement asked for: executor … is not alive": "unknown-executor",
        "the placement asked for: …": "slots-lacking",
        "… were asked for; …": "slots-lacking",
        "nothing is under way that could be given up": "nothing-under-way",
        "a pause was …: it is paused already": "paused-already",
        "to go on was …: it is not paused": "not-paused",
        "a command of … is refused: …": "bad-command",
        "left alone: it …": "not-steerable",
    },
    "hold": {
        "paused; …": "paused",
        "cooling down, … s left; …": "cooldown",
        "asked for in … of … rounds; …": "patience",
        "… is excluded; …": "excluded-period",
        "a further … has not helped: not again until load, tasks or executors change; …": (
            "ineffective"
        ),
        "Real-time batches need … at once, and …; …": "slots-lacking",
    },
}
"""By kind of decision: the patterns, the most special ones first, with the code of each."""


def code_of(kind: str, reason: str) -> str | None:
    """Return the code of a reason; ``None`` where it has none."""
    why = reason
    if kind == "abandon" and GIVEN_UP in reason:
        why = reason.partition(GIVEN_UP)[2].rpartition("; ")[0]
    found = (code for pattern, code in CODES.get(kind, {}).items() if _compiled(pattern).match(why))
    return next(found, None)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split(FILLED_IN))) + r"\Z", re.DOTALL)
