"""State sent over links of limited bandwidth: whole, and no quicker than its links."""

from __future__ import annotations

import subprocess
import sys

import pytest

from elastream.model.migration import StepProblem
from elastream_lab.hosts.namespaces import why_not
from elastream_lab.studies.transfer.migrations import planned
from elastream_lab.studies.transfer.movers import movers
from elastream_lab.studies.transfer.ways import WAYS, estimated_s

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"no hosts here: {why_not()}")

RATE = 1e6


def test_state_arrives_whole_and_no_sooner_than_links_allow_either_way() -> None:
    problem = StepProblem.of([1] * 8, [300_000] * 8, [[0, 4], [4, 8]], 4, 0.0)
    migration = planned("2 to 4", problem)
    with movers(migration.nodes, RATE) as ready:
        for way in WAYS:
            # the first bytes of a link that has rested go at once
            assert ready.measured_s(migration, way) >= 0.8 * estimated_s(migration, way, RATE)


SENT = """
import socket, threading, time
from elastream_lab.hosts.namespaces import limited_loopback

with limited_loopback(4e6):
    server = socket.create_server(("127.0.0.1", 0))
    began = time.monotonic()
    peer = socket.create_connection(server.getsockname())
    threading.Thread(target=lambda: (peer.sendall(bytes(4_000_000)), peer.close())).start()
    print(len(server.accept()[0].makefile("rb").read()), time.monotonic() - began)
"""


def test_a_limited_loopback_carries_everything_and_no_more_than_its_width() -> None:
    command = [sys.executable, "-c", SENT]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    received, seconds = map(float, ended.stdout.split())
    assert received == 4_000_000
    assert seconds >= 0.8
