"""Which copies an executor shall have, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from elastream.core.ports import Copied
from elastream.model.observation import TaskId
from elastream.spark.internals.keepers import CopyStatus
from elastream.spark.steer.copied_queries import Stores

_THERE: Final = ("ready", "taken", "held")


@dataclass(slots=True)
class Wish:
    """What one executor shall have and do."""

    stores: Stores = field(default_factory=dict)
    """The stores that it shall have copies of, by key."""
    take: frozenset[str] = frozenset()
    """Keys of those that it shall take over now."""


def failed(why: str) -> CopyStatus:
    """Return what became of a copy that does not come."""
    return CopyStatus("failed", -1, 0, 0, 0, why, "")


def is_there(found: Mapping[str, CopyStatus], key: str) -> bool:
    """Whether a copy is there, or was and has been taken over."""
    return key in found and found[key].state in _THERE


def is_lost(listed: Mapping[str, CopyStatus] | None, key: str) -> bool:
    """Whether a copy that was there is not any more."""
    return listed is None or key not in listed or listed[key].state == "failed"


def copied(
    wishes: Mapping[str, Wish],
    refused: Mapping[TaskId, str],
    found: Mapping[str, CopyStatus],
    new: Set[str],
    choice: str,
) -> Copied:
    """Return what became of all copies, and where the ``new`` ones came from."""
    whole: dict[TaskId, bool] = dict.fromkeys(refused, False)
    whys = list(refused.values())
    for wish in wishes.values():
        for key, (task, _) in wish.stores.items():
            status = found.get(key)
            there = is_there(found, key)
            whole[task] = whole.get(task, True) and there
            if not there:
                whys.append("its executor was lost" if status is None else status.why)
    tasks = frozenset(task for task, there in whole.items() if there)
    loaded = [found[key] for key in new & found.keys()]
    return Copied(
        tasks,
        sum(status.bytes for status in loaded),
        sum(status.sent for status in loaded),
        whys[0] if whys else None,
        choice,
    )
