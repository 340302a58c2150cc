"""Whoever is on call finds every reason and every alert in ``docs/operating.md``, and no other."""

from __future__ import annotations

import re

from tests.documentation import ROOT
from tests.runbook import abandons, refusals

PAGE = (ROOT / "docs" / "operating.md").read_text()


def entries(heading: str) -> list[str]:
    """The first cells of the table under a heading, as they are written in code marks."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def test_every_reason_for_which_a_change_is_abandoned_has_an_entry() -> None:
    assert sorted(entries("Why a change was abandoned")) == sorted(abandons())


def test_every_reason_for_which_a_request_is_refused_has_an_entry() -> None:
    assert sorted(entries("Why a request was refused")) == sorted(refusals())


def test_every_alert_has_an_entry() -> None:
    rules = (ROOT / "docs" / "dashboards" / "elastream-alerts.yml").read_text()
    alerts = re.findall(r"- alert: (\w+)", rules)
    assert entries("What to do about an alert") == alerts
