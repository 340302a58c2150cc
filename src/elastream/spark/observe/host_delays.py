"""How far the executors' hosts are from each other: a few probes, by a small Spark job.

A probe is a TCP connection from one executor to the port where another serves shuffle blocks, made
and closed: that takes one round trip (Vivaldi, section 2.3, probes likewise). The shortest of a few
counts. The job needs Python on the executors, as PySpark's own functions do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from elastream.spark.internals.spark_internals import ExecutorEntry, SparkInternals
from elastream.spark.observe.own_work import marked

_TRIES: Final = 5
_TIMEOUT_S: Final = 5.0
_COLUMNS: Final = "host string, round_trip_ms double"


class HostProbe:
    """Measures round trips between hosts that have executors of the session."""

    def __init__(self, internals: SparkInternals) -> None:
        self._internals = internals

    def round_trips_ms(self, pairs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], float]:
        """Return the round trip from the first host of each pair to the second.

        A pair that gave no answer, or whose host has no executor, is left out.
        """
        on_host: dict[str, ExecutorEntry] = {}
        for entry in self._internals.executors():
            on_host.setdefault(entry.host, entry)
        wanted: dict[str, list[str]] = {}
        for source, target in pairs:
            if source in on_host and target in on_host:
                wanted.setdefault(source, []).append(target)
        found: dict[tuple[str, str], float] = {}
        for source, targets in wanted.items():
            times = self.from_executor(on_host[source], [on_host[target] for target in targets])
            found |= {(source, target): ms for target, ms in times.items()}
        return found

    def from_executor(
        self, source: ExecutorEntry, targets: Sequence[ExecutorEntry]
    ) -> dict[str, float]:
        """Return the round trip from an executor to each host of ``targets`` that answered."""
        addresses = [(target.host, target.port) for target in targets]
        tries, timeout_s = _TRIES, _TIMEOUT_S

        def probed(rows: Iterator[Any]) -> Iterator[Any]:  # inside: sent there by value
            import socket
            import time

            import pyarrow as pa

            for _ in rows:
                pass
            hosts: list[str] = []
            times: list[float] = []
            for host, port in addresses:
                for _ in range(tries):
                    began = time.perf_counter()
                    try:
                        socket.create_connection((host, port), timeout_s).close()
                    except OSError:
                        continue
                    hosts.append(host)
                    times.append(1000 * (time.perf_counter() - began))
            columns = [pa.array(hosts, pa.string()), pa.array(times, pa.float64())]
            yield pa.RecordBatch.from_arrays(columns, names=["host", "round_trip_ms"])

        with marked(self._internals.spark):
            rows = self._internals.rows_on(source, self._internals.own_session(), 1)
            measured = rows.mapInArrow(probed, _COLUMNS).collect()
        best: dict[str, float] = {}
        for row in measured:
            host, ms = row["host"], row["round_trip_ms"]
            best[host] = min(ms, best.get(host, ms))
        return best
