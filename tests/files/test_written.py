"""Every file that is to last is written by ``atomic_io`` or ``jsonl``; the rest is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.files.written import Written, written_by

ROOT = Path(__file__).parents[2]
_SRC, _LAB = "src/elastream", "lab/src/elastream_lab"

SCRATCH = "a folder of its own that ends with the command or the session"
LOG = "what a process says, as it says it"
LOCK = "an empty file that is locked, never read"
WITHIN = "within a folder that counts only once it is whole"
ALLOWED = {
    f"{_SRC}/jsonl.py": "one of the two writers",
    f"{_SRC}/atomic_io.py": "one of the two writers",
    f"{_SRC}/cli/main.py": "takes output that is discarded: /dev/null",
    f"{_SRC}/cli/quiet.py": "what Java says meanwhile, in a file without a name",
    f"{_SRC}/handover/commands/manage.py": "the output of a process that goes on",
    f"{_SRC}/demo/realtime.py": SCRATCH,
    f"{_SRC}/demo/run.py": SCRATCH,
    f"{_SRC}/demo/timed_lines.py": SCRATCH,
    f"{_SRC}/doctor/cluster.py": SCRATCH,
    f"{_SRC}/handover/carrying.py": WITHIN,
    f"{_SRC}/handover/ledger.py": LOCK,
    f"{_SRC}/handover/spark/row_cuts.py": "Spark writes there, a table that counts once named",
    f"{_SRC}/handover/spark/sinks.py": "Spark writes there, to a sink of the user",
    f"{_SRC}/spark/sessions/batch_session.py": SCRATCH,
    f"{_SRC}/spark/sessions/class_training.py": f"{SCRATCH}; and {LOCK}",
    f"{_SRC}/spark/sessions/embedded_cluster.py": f"{SCRATCH}; and {LOG}",
    f"{_SRC}/spark/sessions/java.py": SCRATCH,
    f"{_SRC}/spark/sessions/spark_home.py": SCRATCH,
    f"{_SRC}/foresight/traces/from_log.py": WITHIN,
    f"{_SRC}/foresight/learner.py": SCRATCH,
    f"{_LAB}/applications/patterns/building.py": WITHIN,
    f"{_LAB}/applications/patterns/run.py": SCRATCH,
    f"{_LAB}/applications/taxi/run.py": SCRATCH,
    f"{_LAB}/applications/taxi/trips.py": SCRATCH,
    f"{_LAB}/benchmarks/control/simulated.py": SCRATCH,
    f"{_LAB}/benchmarks/elasticity/run.py": SCRATCH,
    f"{_LAB}/benchmarks/failure/bench.py": SCRATCH,
    f"{_LAB}/benchmarks/migration/bench.py": SCRATCH,
    f"{_LAB}/benchmarks/object_store.py": SCRATCH,
    f"{_LAB}/benchmarks/peers/bench.py": SCRATCH,
    f"{_LAB}/benchmarks/realtime_shapes.py": SCRATCH,
    f"{_LAB}/benchmarks/peers/flink/cluster.py": LOG,
    f"{_LAB}/benchmarks/peers/flink/compiled_job.py": SCRATCH,
    f"{_LAB}/benchmarks/peers/flink/configuration.py": SCRATCH,
    f"{_LAB}/benchmarks/peers/flink/peer.py": SCRATCH,
    f"{_LAB}/benchmarks/peers/rows.py": SCRATCH,
    f"{_LAB}/benchmarks/relief/rows.py": SCRATCH,
    f"{_LAB}/benchmarks/transfer/run.py": SCRATCH,
    f"{_LAB}/benchmarks/_row_costs.py": SCRATCH,
    f"{_LAB}/benchmarks/traces.py": SCRATCH,
    f"{_LAB}/campaign/application.py": "standard output of a child, a line each",
    f"{_LAB}/campaign/breaking.py": "an empty file whose presence is a sign",
    f"{_LAB}/campaign/child.py": LOG,
    f"{_LAB}/campaign/run.py": SCRATCH,
    f"{_LAB}/campaign/small_store.py": SCRATCH,
    f"{_LAB}/cli/study/handover.py": SCRATCH,
    f"{_LAB}/cli/trial.py": SCRATCH,
    f"{_LAB}/cli/traffic_settings.py": SCRATCH,
    f"{_LAB}/fuzz/many.py": SCRATCH,
    f"{_LAB}/fuzz/reading.py": SCRATCH,
    f"{_LAB}/hosts/network.py": SCRATCH,
    f"{_LAB}/hosts/standalone.py": LOG,
    f"{_LAB}/hosts/taps.py": "a device of the kernel",
    f"{_LAB}/mechanisms/application.py": LOG,
    f"{_LAB}/stores/narrow_link.py": LOG,
    f"{_LAB}/stores/server.py": LOG,
    f"{_LAB}/harness/job_session.py": SCRATCH,
    f"{_LAB}/harness/recording.py": SCRATCH,
    f"{_LAB}/studies/handover/application.py": "standard output of a child, a line an answer",
    f"{_LAB}/studies/handover/sides.py": LOG,
    f"{_LAB}/studies/replication/host_driver.py": SCRATCH,
    f"{_LAB}/studies/replication/hosts.py": SCRATCH,
    f"{_LAB}/studies/resilience/replays.py": SCRATCH,
    f"{_LAB}/studies/response/days.py": SCRATCH,
    f"{_LAB}/studies/response/posts.py": SCRATCH,
    f"{_LAB}/studies/soak/live.py": SCRATCH,
    f"{_LAB}/studies/soak/simulated.py": SCRATCH,
    f"{_LAB}/studies/transfer/mover.py": "bytes that a measurement sends, to scratch",
    f"{_LAB}/studies/transfer/movers.py": SCRATCH,
}
"""The modules that write without those two, and why they may."""


@pytest.fixture(scope="module")
def written() -> list[Written]:
    sources = [file for folder in (_SRC, _LAB) for file in (ROOT / folder).rglob("*.py")]
    return sorted(found for source in sources for found in written_by(source, ROOT))


def test_whatever_is_written_otherwise_is_written_so_for_a_reason(written: list[Written]) -> None:
    assert [found for found in written if found.module not in ALLOWED] == []


def test_no_reason_is_given_for_what_is_not_written(written: list[Written]) -> None:
    assert ALLOWED.keys() - {found.module for found in written} == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Path('f').write_text('t')", ["write_text"]),
        ("with replacing(p) as temporary: temporary.write_text('t')", []),
        ("Path('f').open()", []),
        ("Path('f').open('rb')", []),
        ("with Path('f').open('r+b') as file: ...", ["open"]),
        ("open('f', mode='w')", ["open"]),
        ("os.open('f', os.O_RDONLY)", []),
        ("os.open('f', os.O_WRONLY | os.O_CREAT)", ["open"]),
        ("write_text(path, 't')", []),
        ("rows.write.format('noop').save()", []),
        ("rows.write.format('delta').save('f')", ["save"]),
    ],
)
def test_a_call_that_writes_is_seen(tmp_path: Path, text: str, found: list[str]) -> None:
    source = tmp_path / "module.py"
    source.write_text(text)
    assert [one.call for one in written_by(source, tmp_path)] == found
