"""Whoever is on call finds every reason and every alert in ``docs/operating.md``, and no other.

Each reason to refuse or give up has a code, too, which programs find in the log.
"""

from __future__ import annotations

import re

import pytest
from tests.documentation import ROOT
from tests.runbook import abandons, handover_endings, refusals

from elastream.core.reason_codes import CODES, code_of

PAGE = (ROOT / "docs" / "operating.md").read_text()


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def entries(heading: str) -> list[str]:
    """The first cells of the table under a heading, as they are written in code marks."""
    return re.findall(r"^\| `([^`]+)` \|", section(heading), re.MULTILINE)


def codes(heading: str) -> dict[str, str]:
    """The first two cells of each row."""
    return dict(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", section(heading), re.MULTILINE))


def test_every_reason_for_which_a_change_is_abandoned_has_an_entry_and_a_code() -> None:
    assert codes("Why a change was abandoned") == CODES["abandon"]
    assert sorted(CODES["abandon"]) == sorted(abandons())


def test_every_reason_for_which_a_request_is_refused_has_an_entry_and_a_code() -> None:
    assert codes("Why a request was refused") == CODES["refuse"]
    assert sorted(CODES["refuse"]) == sorted(refusals())


def test_every_reason_for_which_a_handover_ends_early_has_an_entry() -> None:
    found = entries("Why a handover was refused or ended")
    assert sorted(found) == sorted(handover_endings())


@pytest.mark.parametrize("kind", CODES)
def test_a_reason_is_given_the_code_of_its_own_pattern(kind: str) -> None:
    for pattern, code in CODES[kind].items():
        reason = pattern.replace("…", "7")
        whole = f"scale-out given up: {reason}; 0 tasks moved" if kind == "abandon" else reason
        assert code_of(kind, whole) == code, pattern


def test_a_sentence_that_is_no_such_reason_has_no_code() -> None:
    assert code_of("hold", "utilisation 0.70: within 0.60 to 0.80") is None
    assert code_of("plan", "a pause was asked for") is None


def test_every_alert_has_an_entry() -> None:
    rules = (ROOT / "docs" / "dashboards" / "elastream-alerts.yml").read_text()
    alerts = re.findall(r"- alert: (\w+)", rules)
    assert entries("What to do about an alert") == alerts
