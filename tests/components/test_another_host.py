"""Another host reaches what it was let in to, and nothing else: two network namespaces."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from elastream.handover.transport import Address, OriginServer
from elastream.page.run import Run
from elastream.page.server import PageServer, page_address

pytestmark = pytest.mark.components

HERE, THERE = "10.213.7.1", "10.213.7.2"
_numbers = itertools.count()
_CALL = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def another_host() -> Iterator[str]:
    """A network namespace that reaches this one by a link of its own."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    number = next(_numbers)
    name, link = f"elastream-{os.getpid()}-{number}", f"es{os.getpid() % 100_000}n{number}"
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine makes no network namespaces")
    try:
        ip("link", "add", link, "type", "veth", "peer", "name", f"{link}p", "netns", name)
        ip("address", "add", f"{HERE}/30", "dev", link)
        ip("link", "set", link, "up")
        for more in (
            ("address", "add", f"{THERE}/30", "dev", f"{link}p"),
            ("link", "set", f"{link}p", "up"),
        ):
            ip("-n", name, *more)
        yield name
        ip("link", "delete", link)  # the kernel takes its time to do so by itself
    finally:
        ip("netns", "delete", name)


def reaches(host: str, port: int) -> bool:
    call = ["ip", "netns", "exec", host, sys.executable, "-c", _CALL, HERE, str(port)]
    return subprocess.run(call, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(("host", "reached"), [(None, False), (HERE, True)])
def test_the_page_is_reached_by_others_only_where_it_was_set_to(
    another_host: str, host: str | None, reached: bool
) -> None:
    with PageServer(Run("a run"), page_address(0 if host is None else f"{host}:0")) as server:
        port = int(server.url.rstrip("/").rpartition(":")[2])
        assert reaches(another_host, port) is reached


@pytest.mark.parametrize(("host", "reached"), [(None, False), (HERE, True)])
def test_a_handover_is_reached_by_others_only_where_it_was_set_to(
    another_host: str, host: str | None, reached: bool
) -> None:
    server = OriginServer(Address() if host is None else Address(host), "a token of this test")
    try:
        assert reaches(another_host, server.address.port) is reached
    finally:
        server.close()
