from __future__ import annotations

from pathlib import Path

from elastream_lab.harness.recording import Recording
from elastream_lab.harness.replay import ReplayClock
from elastream_lab.harness.word_count import WordCount
from elastream_lab.mechanisms.application import ApplicationSpec


def test_the_other_process_gets_all_of_the_job(tmp_path: Path) -> None:
    job = WordCount(
        Recording(tmp_path / "posts"),
        ReplayClock(tmp_path / "clock"),
        tmp_path / "checkpoint",
        service_us=250.0,
        ballast_bytes=16_384,
        rounds_a_ms=412.5,
    )
    config = (("spark.sql.shuffle.partitions", "4"),)
    spec = ApplicationSpec(job, 3, 800, tmp_path / "seen", config, master="spark://here:7077")
    assert ApplicationSpec.from_json(spec.as_json()) == spec
