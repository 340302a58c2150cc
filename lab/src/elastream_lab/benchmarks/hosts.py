"""hosts: what the switch between hosts of this machine adds to delays, and how much it carries.

A round trip is a TCP connection that is made, as the loop's probe does it. The switch shows of
itself how late it passed frames on; the rest of what is added is the kernel's and Python's.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

from elastream_lab.hosts.namespaces import why_not
from elastream_lab.hosts.network import Host, network

_PORT = "7000"
_DELAYS_MS = (0.0, 1.0, 5.0, 20.0)
_RATES = (1e6, 10e6, 50e6, None)
_SERVE = """
import socket, sys, time
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    peer, _ = server.accept()
    size, began = 0, time.perf_counter()
    while said := peer.recv(1 << 20):
        size += len(said)
    if size:
        print(size / (time.perf_counter() - began), flush=True)
"""
_ROUND_TRIPS = """
import socket, statistics, sys, time
times = []
for _ in range(200):
    began = time.perf_counter()
    socket.create_connection((sys.argv[1], int(sys.argv[2]))).close()
    times.append(1000 * (time.perf_counter() - began))
print(min(times), statistics.median(times))
"""
_SEND = """
import socket, sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
piece = bytes(1 << 16)
for _ in range(int(sys.argv[3])):
    peer.sendall(piece)
"""


def run() -> None:
    """Print a table of delays and one of rates."""
    if (why := why_not()) is not None:
        print(f"no hosts here: {why}")
        return
    with network(["near", "far"]) as net, _serving(net["far"]) as server:
        delays = Table(title="round trips between two hosts, in ms")
        for heading in (
            "set",
            "least",
            "median",
            "over what was set",
            "late by the switch: p50",
            "p99",
        ):
            delays.add_column(heading, justify="right")
        for ms in _DELAYS_MS:
            net.delay("near", "far", ms)
            net.lateness()
            least, median = map(float, _ran(net["near"], _ROUND_TRIPS, net["far"]).split())
            late = net.lateness()
            ratio = f"{median / (2 * ms):.3f}" if ms else "-"
            row = (f"{2 * ms:g}", f"{least:.3f}", f"{median:.3f}", ratio)
            delays.add_row(*row, f"{late.median_ms or 0:.3f}", f"{late.p99_ms or 0:.3f}")
        net.delay("near", "far", 0.0)
        rates = Table(title="one TCP stream, in MB/s")
        for heading in ("link", "carried", "frames a second"):
            rates.add_column(heading, justify="right")
        for rate in _RATES:
            net.slow("near", rate)
            net.lateness()
            _ran(net["near"], _SEND, net["far"], str(round(3 * (rate or 300e6) / (1 << 16))))
            assert server.stdout is not None
            carried = float(server.stdout.readline())
            report = net.lateness()
            frames = report.frames / (report.bytes / carried)
            rates.add_row(
                "no limit" if rate is None else f"{rate / 1e6:g}",
                f"{carried / 1e6:.1f}",
                f"{frames:,.0f}",
            )
    Console().print(delays)
    Console().print(rates)


@contextmanager
def _serving(host: Host) -> Iterator[subprocess.Popen[str]]:
    with host.start(sys.executable, "-c", _SERVE, host.address, _PORT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def _ran(host: Host, program: str, to: Host, *more: str) -> str:
    with host.start(sys.executable, "-c", program, to.address, _PORT, *more) as process:
        return process.communicate()[0].strip()
