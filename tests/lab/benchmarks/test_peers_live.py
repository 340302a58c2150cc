from __future__ import annotations

import json
from pathlib import Path

import pytest

from elastream.cli.main import main

FLINK = Path(__file__).parents[3] / ".flink"


@pytest.mark.slow
@pytest.mark.skipif(not FLINK.is_dir(), reason="no Flink to compare with; make flink gets it")
def test_both_systems_rescale_and_count_right(tmp_path: Path) -> None:
    file = tmp_path / "peers.json"
    settings = ["--state-mb", "4", "--rows-a-second", "200", "--trigger-s", "2"]
    assert main(["bench", "peers", "--flink", str(FLINK), *settings, "--json", str(file)]) == 0
    flink, elastream = json.loads(file.read_text())["runs"]
    assert flink["system"].startswith("flink 2.")
    assert elastream["system"] == "elastream"
    for run in (flink, elastream):
        assert run["exact"]
        assert run["rows_per_s"] > 0
        for change in (run["rescale"], run["cold_rescale"]):
            assert change["gap_ms"] > 0
            assert list(change) == ["gap_ms", "added_p99_ms", "settled_s"]
