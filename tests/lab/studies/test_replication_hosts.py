"""The study across hosts: what it judges, and what it refuses. The runs need root and minutes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from elastream.model.errors import ProblemError
from elastream_lab.studies.replication.hosts import HostStudy, judged


def row(delays: str, response_ms: float, *, exact: bool = True) -> dict[str, Any]:
    return {"delays": delays, "response_ms": response_ms, "exact": exact}


def test_rows_must_come_sooner_in_every_repeat_and_be_exact() -> None:
    study = HostStudy(50.0, 60.0, 2)
    rows = [
        *(row("unknown", 3000), row("known", 2000), row("pinned", 1900)),
        *(row("unknown", 3200), row("known", 2100), row("pinned", 1900)),
    ]
    fields = judged(rows, study).as_json("replication")
    json.dumps(fields, allow_nan=False)
    assert fields["trend_holds"]
    assert "3100 (3000 to 3200) ms" in str(fields["says"])
    assert not judged([*rows[:4], row("known", 3300), rows[5]], study).trend_holds
    assert not judged([*rows[:4], row("known", 2100, exact=False), rows[5]], study).trend_holds


def test_what_is_run_is_checked_when_made() -> None:
    taxi = HostStudy(100.0, 90.0).taxi(seed=3)
    assert (taxi.executors, taxi.replay_s, taxi.seed) == (4, 90.0, 3)
    for wrong in ((0.0, 60.0, 1), (100.0, 0.0, 1), (100.0, 60.0, 0)):
        with pytest.raises(ProblemError):
            HostStudy(*wrong)
