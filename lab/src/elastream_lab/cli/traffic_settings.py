"""What the commands on traffic share: whose packets, in how many sub-streams, on what cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastream.model.checks import count, non_negative
from elastream.model.errors import ProblemError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream_lab.applications.traffic.job import TrafficJob
    from elastream_lab.applications.traffic.packets import Packets
    from elastream_lab.harness.recording import Recording


Input = Annotated[
    Path | None,
    typer.Option(
        "--input", help="Replay this log: CSV, JSON lines, Parquet, .tsv, .txt or Zeek's .log."
    ),
]
Time = Annotated[str | None, typer.Option("--time", help="Its column with the time of a packet.")]
Source = Annotated[str | None, typer.Option("--source", help="Its column with who sent it.")]
Destination = Annotated[
    str | None, typer.Option("--destination", help="Its column with who gets it.")
]
Size = Annotated[
    str | None, typer.Option("--size", help="Its column with the size; left out: not known.")
]
Seed = Annotated[int, typer.Option("--seed", help="Of the made packets.")]
Substreams = Annotated[
    int, typer.Option("--substreams", help="Into how many the packets are split, by source.")
]
Partitions = Annotated[
    int, typer.Option("--partitions", help="State partitions of each aggregation.")
]
Executors = Annotated[int, typer.Option("--executors", help="Executor processes to run on.")]
ServiceUs = Annotated[
    float,
    typer.Option("--service-us", help="Microseconds a packet costs a window, slept at its state."),
]

_LEAD_SHARE = 0.1
_LONGEST_LEAD_S = 5.0


@dataclass(frozen=True, slots=True)
class TrafficSettings:
    """The options of the commands; checked when made."""

    input: Path | None = None
    """A log to replay; ``None`` for packets made from the seed."""
    time: str | None = None
    source: str | None = None
    destination: str | None = None
    size: str | None = None
    seed: int = 1
    replay_s: float = 60.0
    """How long the replay takes."""
    substreams: int = 3
    partitions: int = 1
    executors: int = 2
    service_us: float = 0.0

    def __post_init__(self) -> None:
        count("--seed", self.seed)
        if not 5 <= non_negative("--seconds", self.replay_s) <= 3600:
            raise ProblemError("--seconds", f"{self.replay_s:g} is not between 5 and 3600")
        count("--substreams", self.substreams, least=1, most=32)
        count("--partitions", self.partitions, least=1, most=64)
        count("--executors", self.executors, least=1, most=16)
        if non_negative("--service-us", self.service_us) > 1e6:
            raise ProblemError("--service-us", f"{self.service_us:g} is above a second a packet")
        self._check_columns()

    def _check_columns(self) -> None:
        needed = {
            "--time": self.time,
            "--source": self.source,
            "--destination": self.destination,
        }
        for option, column in (*needed.items(), ("--size", self.size)):
            if self.input is None and column is not None:
                raise ProblemError(option, "names a column of --input, which is not given")
        for option, column in needed.items():
            if self.input is not None and column is None:
                raise ProblemError(option, f"which column of {self.input}? name it")

    def packets(self) -> Packets:
        """Read or make the packets."""
        from elastream_lab.applications.traffic.made_packets import MadeTraffic, make_packets
        from elastream_lab.applications.traffic.packets import PacketLog, read_packets

        if self.input is None:
            made = MadeTraffic(seed=self.seed, span_s=self.replay_s, substreams=self.substreams)
            return make_packets(made)
        columns = (self.time or "", self.source or "", self.destination or "", self.size)
        return read_packets(PacketLog(self.input, *columns))

    def recorded(self, folder: Path) -> tuple[Recording, ...]:
        """Read or make the packets, and write a recording of each sub-stream."""
        from elastream_lab.applications.traffic.packets import record_substreams

        return record_substreams(
            self.packets(), folder, substreams=self.substreams, replay_s=self.replay_s
        )

    def monitor(
        self, recordings: tuple[Recording, ...], folder: Path, *, keep_results: bool
    ) -> TrafficJob:
        """Return the traffic monitor over the recordings."""
        from elastream_lab.applications.traffic.job import TrafficJob

        return TrafficJob(
            recordings,
            folder,
            partitions=self.partitions,
            service_us=self.service_us,
            lead_s=min(_LONGEST_LEAD_S, _LEAD_SHARE * self.replay_s),
            keep_results=keep_results,
        )


@contextmanager
def monitor_in_session(
    settings: TrafficSettings, *, keep_results: bool
) -> Iterator[tuple[SparkSession, TrafficJob]]:
    """Give an embedded session and a monitor that has not started; the log is read before both."""
    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.spark.sessions.embedded_cluster import EmbeddedCluster
    from elastream_lab.harness.job_session import fresh_folder, job_session

    with tempfile.TemporaryDirectory(prefix="elastream-traffic-") as folder:
        recordings = settings.recorded(Path(folder))
        cluster = EmbeddedCluster(
            executors=settings.executors,
            max_executors=settings.executors,
            app_name="elastream traffic",
            config={"spark.sql.shuffle.partitions": "4"},
        )
        typer.echo(f"starting Spark, {settings.executors} executors", err=True)
        with ended_like_by_ctrl_c(), java_kept_quiet(), job_session(cluster) as spark:
            scratch = fresh_folder(spark)
            yield spark, settings.monitor(recordings, scratch, keep_results=keep_results)
