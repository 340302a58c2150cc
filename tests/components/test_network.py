"""Hosts of this machine: what is set between them is so, and nothing of them stays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from elastream.model.errors import ElastreamError
from elastream_lab.hosts.namespaces import why_not
from elastream_lab.hosts.network import Host, Network, network

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"no hosts here: {why_not()}")

PORT = "7000"
SERVE = """
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    peer, _ = server.accept()
    size = 0
    while said := peer.recv(1 << 20):
        size += len(said)
    peer.sendall(str(size).encode())
    peer.close()
"""
ROUND_TRIP = """
import socket, sys, time
times = []
for _ in range(20):
    began = time.perf_counter()
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 60).close()
    times.append(1000 * (time.perf_counter() - began))
print(min(times))
"""
SEND = """
import socket, sys, time
began = time.perf_counter()
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
peer.sendall(bytes(int(sys.argv[3])))
peer.shutdown(socket.SHUT_WR)
assert int(peer.recv(100)) == int(sys.argv[3])
print(time.perf_counter() - began)
"""
REACH = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close()
except OSError:
    print("no")
else:
    print("yes")
"""


@contextmanager
def serving(host: Host) -> Iterator[subprocess.Popen[str]]:
    with host.start(sys.executable, "-c", SERVE, host.address, PORT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def ran(host: Host, program: str, to: Host, *more: str) -> str:
    with host.start(sys.executable, "-c", program, to.address, PORT, *more) as process:
        return process.communicate()[0].strip()


def left(pid: int) -> list[str]:
    """What of a process's hosts is there: namespaces and devices."""
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    devices = [each.name for each in Path("/sys/class/net").glob(f"es{pid}-*")]
    return [line for line in names.stdout.splitlines() if f"elastream-{pid}-" in line] + devices


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    with network(["one", "two", "three"]) as made:
        yield made


def test_round_trips_take_what_was_set_and_no_host_is_nearer(net: Network) -> None:
    with serving(net["one"]):
        for ms in (2.0, 10.0, 40.0):
            net.delay("one", "two", ms)
            net.delay("one", "three", 2 * ms)
            near = float(ran(net["two"], ROUND_TRIP, net["one"]))
            far = float(ran(net["three"], ROUND_TRIP, net["one"]))
            assert 2 * ms <= near < far
            assert far >= 4 * ms
        report = net.lateness()
        assert report.median_ms is not None
        assert report.frames > 100
        for other in ("two", "three"):
            net.delay("one", other, 0.0)


def test_a_narrow_link_carries_no_more_than_was_set_and_a_cut_one_nothing(net: Network) -> None:
    size = 2_000_000
    with serving(net["one"]):
        net.slow("two", 1e6)
        assert float(ran(net["two"], SEND, net["one"], str(size))) >= 0.85 * size / 1e6
        net.slow("two", None)
        net.cut("two")
        assert ran(net["two"], REACH, net["one"]) == "no"
        assert ran(net["three"], REACH, net["one"]) == "yes"
        net.mend("two")
        assert ran(net["two"], REACH, net["one"]) == "yes"


def test_a_host_that_is_lost_loses_its_processes_and_comes_back_without_them(net: Network) -> None:
    with serving(net["one"]) as process:
        net.lose("one")
        assert process.wait(60) != 0
    assert ran(net["two"], REACH, net["one"]) == "no"
    net.mend("one")
    with serving(net["one"]):
        assert ran(net["two"], REACH, net["one"]) == "yes"


def test_hosts_share_the_folders_named_and_nothing_else_below_tmp(tmp_path: Path) -> None:
    write = "open('/tmp/own', 'w').close(); open('{0}/shared', 'w').close()"
    look = "import os; print(os.listdir('/tmp'), os.listdir('{0}'))"
    with network(["one", "two"], shared=[tmp_path]) as net:
        for host, program in ((net["one"], write), (net["two"], look)):
            with host.start(sys.executable, "-c", program.format(tmp_path)) as process:
                ended = process.communicate()[0]
        assert (net["one"].tmp / "own").exists()
    assert "own" not in ended
    assert "shared" in ended
    assert [each.name for each in tmp_path.iterdir()] == ["shared"]


def fail_in_the_middle() -> None:
    with network(["one"]) as net, net["one"].start("sleep", "1000"):
        assert left(os.getpid())
        net.lose("one")
        raise ElastreamError("in the middle")


def test_nothing_stays_of_hosts_after_a_failure_nor_of_those_of_a_killed_process() -> None:
    before = left(os.getpid())
    with pytest.raises(ElastreamError, match="in the middle"):
        fail_in_the_middle()
    assert left(os.getpid()) == before
    dies = (
        "import os, signal\n"
        "from elastream_lab.hosts.network import network\n"
        "with network(['one']) as net:\n"
        "    net['one'].start('sleep', '1000')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen([sys.executable, "-c", dies]) as killed:
        killed.wait()
    assert left(killed.pid)
    with network(["other"]):
        assert left(killed.pid) == []
