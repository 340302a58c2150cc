"""Whatever the embedded cluster listens on is on this machine alone."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.processes import descendants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LISTENS = "0A"

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's /proc")


def listened_on(pids: Iterable[int]) -> set[str]:
    """The addresses on which these processes listen, as the kernel shows."""
    sockets = {name for pid in pids for name in descriptors(pid)}
    return {
        address(row[1].partition(":")[0])
        for table in ("tcp", "tcp6")
        for row in map(str.split, Path(f"/proc/net/{table}").read_text().splitlines()[1:])
        if row[3] == _LISTENS and f"socket:[{row[9]}]" in sockets
    }


def descriptors(pid: int) -> list[str]:
    """What a process has open, but for what was closed while one looked."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(str(entry.readlink()))
    return found


def address(text: str) -> str:
    """The address that the kernel shows as words of the machine's own order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    raw = b"".join(struct.pack("=I", word) for word in words)
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


def is_loopback(text: str) -> bool:
    found = ipaddress.ip_address(text)
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


def test_driver_and_executors_listen_on_loopback_alone(spark: SparkSession) -> None:
    spark.range(10, numPartitions=2).count()
    family = [os.getpid(), *descendants(os.getpid())]
    found = listened_on(family)
    assert found
    assert {entry for entry in found if not is_loopback(entry)} == set()


def test_a_socket_that_others_reach_is_seen() -> None:
    with socket.create_server(("0.0.0.0", 0)):
        assert "0.0.0.0" in listened_on([os.getpid()])
    assert is_loopback("::ffff:127.0.0.1")
    assert not is_loopback("::")
