"""The page, the dashboard and the alert rules name the metrics that there are, and no others."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest
from tests.documentation import ROOT
from tests.page.watching import families

from elastream.core.decisions import Decision
from elastream.page.counts import Counts
from elastream.page.metrics import metrics_text

PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()
RULES = (ROOT / "docs" / "dashboards" / "elastream-alerts.yml").read_text()
DASHBOARD_TEXT = (ROOT / "docs" / "dashboards" / "elastream.json").read_text()
DASHBOARD: dict[str, Any] = json.loads(DASHBOARD_TEXT)

SEEN: dict[str, Any] = {
    "at_ms": 5000,
    "loop": {
        "mode": "acts",
        "phase": "moving",
        "least": 1,
        "most": 4,
        "utilisation": 0.5,
        "marks": {"low": 0.6, "target": 0.7, "high": 0.8},
        "attached_ms": 0,
        "executor_s": 10.0,
        "spare_executor_s": 0.0,
        "unknown": [],
    },
    "executors": {
        "0": {
            "host": "h",
            "spare": False,
            "busy": 0.5,
            "store_memory_bytes": 1,
            "memory": {"heap_peak": 1, "heap_limit": 2, "process_peak": 1, "limit": 2},
        }
    },
    "queries": {
        "q": {
            "backlog": 1,
            "arrivals_per_s": 1.0,
            "state_bytes": 1,
            "tasks": 1,
            "trigger_ms": 1000,
            "slots": 6,
            "gap_ms": 900.0,
            "latency_ms": 8.0,
            "idle": False,
        }
    },
    "tasks": {"q/0/0": ["0", 0.1, 1, "0", None]},
    "change": {"kind": "scale-out", "executors": 2, "asked_ms": 1000},
}
"""A scene in which everything is known."""


def exposed() -> dict[str, tuple[str, set[str]]]:
    """Type and labels of every metric, by the name that a table has for it."""
    counts = Counts()
    counts.take_batches([["q", 0, 0, 100, 1]])
    brought = {"predicted_batch_ms": {"q": 100}, "measured_batch_ms": {"q": 110}}
    counts.take_decision(Decision(0, 0, "done", "done", 2, figures={"seconds": 1, **brought}))
    return {
        name + "_total" * (family.type == "counter"): (
            family.type,
            {label for sample in family.samples for label in sample.labels} - {"le"},
        )
        for name, family in families(counts, SEEN).items()
    }


def samples() -> set[str]:
    """The names that PromQL may use."""
    return {
        name + suffix
        for name, (kind, _) in exposed().items()
        for suffix in (("_bucket", "_count", "_sum") if kind == "histogram" else ("",))
    }


def named(text: str) -> set[str]:
    return set(re.findall(r"\belastream_\w+", text))


def test_every_metric_is_in_a_table_with_its_type_and_labels_and_no_other_is() -> None:
    rows = re.findall(r"^\| `(elastream_\w+)` \| (\w+) \| ([^|]*)\| [^|]+ \|$", PAGE, re.M)
    documented = {name: (kind, set(re.findall(r"\w+", labels))) for name, kind, labels in rows}
    assert len(documented) == len(rows)
    assert documented == exposed()


def test_every_metric_has_a_text_that_says_what_it_is() -> None:
    texts = re.findall(r"^# HELP \S+ (.+)$", metrics_text(Counts(), None)[0].decode(), re.M)
    assert len(texts) == len(set(texts)) == len(exposed())


@pytest.mark.parametrize("text", [RULES, DASHBOARD_TEXT], ids=["rules", "dashboard"])
def test_every_metric_that_is_asked_for_exists(text: str) -> None:
    assert named(text)
    assert named(text) - samples() == set()


def test_the_questions_of_the_page_ask_for_metrics_that_exist() -> None:
    questions = PAGE.split("## Questions to ask")[1]
    assert named(questions) - samples() == set()


def test_every_alert_is_on_the_page_and_says_what_happened() -> None:
    alerts = re.findall(r"alert: (\w+)", RULES)
    assert re.findall(r"^\| `(Elastream\w+)` \|", PAGE, re.M) == alerts
    assert len(set(alerts)) == len(alerts)
    assert RULES.count("summary: ") == RULES.count("severity: ") == len(alerts)


def test_the_panels_of_the_dashboard_lie_next_to_each_other() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart or above
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_the_dashboard_asks_the_data_source_that_its_reader_chose() -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    variables = DASHBOARD["templating"]["list"]
    assert [each["name"] for each in variables] == ["datasource", "job", "instance", "query"]
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    asking = [*variables[1:], *panels, *(each for panel in panels for each in panel["targets"])]
    assert [each for each in asking if each["datasource"] != chosen] == []
    assert all(panel["title"] and panel["description"] for panel in panels)
