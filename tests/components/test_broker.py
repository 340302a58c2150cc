"""The Kafka of the component tests starts whatever its random cluster id is."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from tests.components.broker import broker
from tests.components.parts import missing

pytestmark = pytest.mark.skipif(
    missing("kafka-broker") is not None, reason=str(missing("kafka-broker"))
)


def test_a_cluster_id_may_begin_with_a_dash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_bytes", lambda size: b"\xf8" * size)
    with broker(tmp_path / "broker"):
        properties = (tmp_path / "broker" / "log" / "meta.properties").read_text()
    assert "cluster.id=-Pj4" in properties
