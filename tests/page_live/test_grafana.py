"""The dashboard is one of Grafana: its own library reads it, with each panel and each query.

It needs ``grafana-foundation-sdk`` (``make test-page`` installs it).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.documentation import ROOT

dashboards = pytest.importorskip("grafana_foundation_sdk.models.dashboard")

pytestmark = pytest.mark.components

GIVEN: dict[str, Any] = json.loads((ROOT / "docs" / "dashboards" / "elastream.json").read_text())


def queries(panels: list[dict[str, Any]]) -> list[str]:
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def test_grafana_reads_every_panel_and_every_query_of_the_dashboard() -> None:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins

    register_default_plugins()
    read = json.loads(JSONEncoder().encode(dashboards.Dashboard.from_json(GIVEN)))
    assert read["title"] == "elastream"
    of_interest = ("title", "type", "gridPos", "datasource", "fieldConfig")
    for found, given in zip(read["panels"], GIVEN["panels"], strict=True):
        assert {name: found.get(name) for name in of_interest} == {
            name: given.get(name) for name in of_interest
        }
    assert queries(read["panels"]) == queries(GIVEN["panels"]) != []
    names = [each["name"] for each in GIVEN["templating"]["list"]]
    assert [each["name"] for each in read["templating"]["list"]] == names
