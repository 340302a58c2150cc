"""The comparison with peers: the same rows, keys, state and change on Flink and on elastream.

Both count the words of the same rows (:mod:`elastream_lab.benchmarks.peers.rows`) on two processes
of one core each, and then on three: Spark's executors, Flink's task managers of one slot. Both read
the rows from a local file by the same clock, and both keep a count for each word, and the same
ballast for some, in RocksDB with checkpoints on the local disk. The work is the update of the state
alone; nothing is slept. One after the other, in one run of the command.

*A result is there* when somebody else could read it: of a micro-batch when the batch is committed,
of Flink when the count after the row is in the sink's file. A sink of Flink that commits with its
checkpoints would show results later; counts are upserts, which need no such sink.

*Cold*: the third process is started when the change is asked for. Else it is there, and has worked
before: the task manager that a scale-in left over keeps a free slot, the executor is the loop's
warm spare.

*Exact*: of Flink every count of every row, also where it was written again after a rescale, is
compared with how often the word had come by then; here the state at the end with a batch count.

What differs, and is reported with the figures: Spark works in micro-batches, which are the floor of
its latency; Flink's processes have their default compiler, the embedded cluster's the quick one;
both share the machine with the driver or job manager, and with the source.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elastream.model.checks import count, non_negative, positive
from elastream.model.errors import ElastreamError, ProblemError
from elastream_lab.benchmarks.peers.elastream_peer import elastream_peer
from elastream_lab.benchmarks.peers.figures import PeerResult
from elastream_lab.benchmarks.peers.flink.installation import FlinkInstallation
from elastream_lab.benchmarks.peers.flink.peer import flink_peer
from elastream_lab.benchmarks.peers.rows import PeerRows, RowPlan, make_rows
from elastream_lab.benchmarks.peers.trial import Peer, Trial
from elastream_lab.harness.replay import ReplayClock

_LONGEST_S: Final = 600.0
"""There are timed rows for so long."""
_LEAD_ROWS: Final = 800
_BACKLOG_ROWS: Final = 600_000


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """What is compared; checked when made."""

    rows_a_second: float = 1000.0
    state_mb: int = 64
    hot_share: float = 0.2
    """The part of the state that the stream goes on to update."""
    trigger_s: float = 1.0
    """How often a micro-batch begins here, and a checkpoint there."""

    def __post_init__(self) -> None:
        positive("rows_a_second", self.rows_a_second)
        count("state_mb", self.state_mb, least=1, most=4096)
        positive("trigger_s", self.trigger_s)
        if non_negative("hot_share", self.hot_share) > 1:
            raise ProblemError("hot_share", f"{self.hot_share:g} is above 1")

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries."""
        return {
            "rows_per_s": self.rows_a_second,
            "state_bytes": self.state_mb << 20,
            "hot_share": self.hot_share,
            "trigger_s": self.trigger_s,
        }


def run_peers(
    settings: PeerSettings,
    flink: FlinkInstallation,
    *,
    say: Callable[[str], None],
    done: Callable[[PeerResult], None],
    failed: Callable[[str], None],
) -> None:
    """Run both.

    ``done`` is called with each result as it is there, ``failed`` with a line about a system that
    came to none; the other is run all the same.
    """
    plan = RowPlan(
        settings.state_mb << 20,
        settings.hot_share,
        settings.rows_a_second,
        _LONGEST_S,
        _LEAD_ROWS,
        _BACKLOG_ROWS,
    )
    with tempfile.TemporaryDirectory(prefix="elastream-peers-") as name:
        say("making the rows")
        rows = make_rows(plan, Path(name))

        def on_flink(clock: ReplayClock, folder: Path) -> AbstractContextManager[Peer]:
            return flink_peer(flink, rows, clock, folder, checkpoint_s=settings.trigger_s)

        def here(clock: ReplayClock, folder: Path) -> AbstractContextManager[Peer]:
            return elastream_peer(rows, clock, folder, trigger_s=settings.trigger_s)

        for system, peer in (("flink", on_flink), ("elastream", here)):
            folder = Path(name) / system
            folder.mkdir()
            try:
                done(_result(system, peer, rows, folder, say))
            except ElastreamError as error:
                failed(f"{system}: {error}")


def _result(
    system: str,
    peer: Callable[[ReplayClock, Path], AbstractContextManager[Peer]],
    rows: PeerRows,
    folder: Path,
    say: Callable[[str], None],
) -> PeerResult:
    say(f"{system}: starting")
    clock = ReplayClock(folder / "clock")
    with peer(clock, folder) as running:
        return Trial(running, rows, clock, lambda what: say(f"{system}: {what}")).run()
