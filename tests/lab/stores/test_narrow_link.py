"""A link passes everything on, unchanged and no faster than its width."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastream_lab.stores.narrow_link import (
    Sample,
    narrow_link,
    passed_between,
    peak_bytes_per_s,
    read_samples,
)

RATE = 4e6
SAID = bytes(range(256)) * 4096
"""1 MiB."""


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that says back what it hears; its port."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer(end: socket.socket) -> None:
        with end:
            while report := end.recv(1 << 16):
                end.sendall(report)

    def accept() -> None:
        while True:
            try:
                end, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(end,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield server.getsockname()[1]
    server.close()


def said_back(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as end:
        sender = threading.Thread(target=end.sendall, args=(SAID,))
        sender.start()
        report = b""
        while len(report) < len(SAID):
            report += end.recv(1 << 16)
        sender.join()
        return report


def test_two_connections_share_a_link_and_get_all_that_was_said(echo: int, tmp_path: Path) -> None:
    reports: list[bytes] = []
    with narrow_link(echo, tmp_path / "samples", bytes_per_s=RATE) as port:
        began = time.monotonic()
        threads = [
            threading.Thread(target=lambda: reports.append(said_back(port))) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took_s = time.monotonic() - began
        assert reports == [SAID, SAID]
        assert took_s >= 0.9 * 2 * len(SAID) / RATE
        written = read_samples(tmp_path / "samples")
        while len(samples := read_samples(tmp_path / "samples")) < len(written) + 2:
            time.sleep(0.05)
    assert (samples[-1].up, samples[-1].down) == (2 * len(SAID), 2 * len(SAID))


def test_a_link_without_a_rate_counts(echo: int, tmp_path: Path) -> None:
    with narrow_link(echo, tmp_path / "samples", bytes_per_s=None) as port:
        assert said_back(port) == SAID


SAMPLES = (
    Sample(0, 0, 0),
    Sample(500, 100, 0),
    Sample(1000, 200, 50),
    Sample(2000, 200, 950),
    Sample(3000, 300, 1000),
)


def test_what_passed_between_two_moments_is_reported_by_direction() -> None:
    assert passed_between(SAMPLES, 500, 2000) == (100, 950)
    assert passed_between(SAMPLES, 5000, 6000) == (0, 0)


def test_the_peak_is_over_a_second_and_in_one_direction() -> None:
    assert peak_bytes_per_s(SAMPLES) == 900.0
    assert peak_bytes_per_s(SAMPLES[:2]) == 0.0
    assert peak_bytes_per_s(()) == 0.0
