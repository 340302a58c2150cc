from __future__ import annotations

import http.client
import json
import logging
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.page.runs import begun

from elastream.model.errors import ElastreamError, ProblemError
from elastream.page.run import Run
from elastream.page.server import (
    Limits,
    PageServer,
    checked_address,
    checked_names,
    page_address,
)

FREE = ("127.0.0.1", 0)
OPEN = ("0.0.0.0", 0)
"""Every address of this machine."""
HANG_S = 120.0
"""Only ends a test that hangs."""


@contextmanager
def asked(
    server: PageServer, path: str, *, method: str = "GET", headers: dict[str, str] | None = None
) -> Iterator[http.client.HTTPResponse]:
    place = urlsplit(server.url)
    assert place.hostname is not None
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
    connection.request(method, path, headers=headers or {})
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def events(response: http.client.HTTPResponse) -> Iterator[tuple[str, list[str], str | None]]:
    """Yield the events of a stream: name, lines of data, id."""
    name, data, number = "", [], None
    for raw in response:
        line = raw.decode().rstrip("\n")
        key, _, value = line.partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            data.append(value)
        elif key == "id":
            number = value
        elif not line and name:
            yield name, data, number
            name, data, number = "", [], None


def kinds(lines: list[str]) -> set[str]:
    return {json.loads(line)["kind"] for line in lines}


@pytest.fixture
def live() -> Iterator[tuple[Any, Any, Run, PageServer]]:
    run = Run("a run")
    cluster, loop = begun(run)
    with loop, PageServer(run, FREE) as server:
        cluster.advance(30)
        yield cluster, loop, run, server


def test_the_page_and_its_parts_are_served_and_nothing_else(live: Any) -> None:
    *_, server = live
    with asked(server, "/") as response:
        text = response.read().decode()
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    assert "<html" in text
    with asked(server, "/uPlot.min.js") as response:
        assert response.headers["Content-Type"] == "text/javascript; charset=utf-8"
        assert len(response.read()) == int(response.headers["Content-Length"])
    for path in ("/../server.py", "/static/index.html", "/%2e%2e/server.py", "/__init__.py"):
        with asked(server, path) as response:
            assert response.status == 404


def test_nothing_can_be_changed_through_it(live: Any) -> None:
    *_, server = live
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        with asked(server, "/", method=method) as response:
            assert response.status == 501


def test_a_name_from_elsewhere_is_turned_away(live: Any) -> None:
    *_, server = live
    port = urlsplit(server.url).port
    for path in ("/", "/events", "/metrics"):
        with asked(server, path, headers={"Host": f"evil.example:{port}"}) as response:
            assert response.status == 403
    for name in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
        with asked(server, "/", headers={"Host": name}) as response:
            assert response.status == 200
    for name in (f"192.0.2.7:{port}", socket.gethostname(), "", "[", "localhost.evil.example"):
        with asked(server, "/", headers={"Host": name}) as response:
            assert response.status == 403


def status_for(server: PageServer, host: str, path: str = "/metrics") -> int:
    """Ask a page that listens on every address, by the name ``host``."""
    port = urlsplit(server.url).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_S)
    connection.request("GET", path, headers={"Host": f"{host}:{port}"})
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_page_for_others_turns_names_from_elsewhere_away_too() -> None:
    with PageServer(Run("a run"), OPEN, names=("Driver.Example",)) as server:
        own = ["localhost", socket.gethostname(), "127.0.0.1", "192.0.2.7", "[2001:db8::7]"]
        allowed = ["driver.example", "DRIVER.EXAMPLE", "driver.example."]
        assert {name: status_for(server, name) for name in own + allowed} == dict.fromkeys(
            own + allowed, 200
        )
        others = ["evil.example", "driver.example.evil.example", "example", ""]
        for path in ("/", "/events", "/metrics"):
            found = {name: status_for(server, name, path) for name in others}
            assert found == dict.fromkeys(others, 403)


@pytest.mark.parametrize("name", ["", "a:80", "a/b", "http://a", "a b", "*"])
def test_what_is_not_a_host_name_is_refused(name: str) -> None:
    with pytest.raises(ProblemError, match=r"page_names: .* is not a host name"):
        checked_names([name])


def test_a_stream_shows_what_was_and_what_comes_and_that_it_is_over(live: Any) -> None:
    _, loop, _, server = live
    with asked(server, "/events") as response:
        report = events(response)
        name, data, _ = next(report)
        assert name == "about"
        about = json.loads(data[0])
        assert (about["title"], about["live"], about["begins_later"]) == ("a run", True, False)
        assert next(report)[0] == "reset"
        name, lines, number = next(report)
        assert name == "records"
        assert {"attach", "join", "scene", "hold"} <= kinds(lines)
        assert json.loads(next(x for x in lines if '"scene"' in x))["whole"]
        before = number
        loop.run_until("done")
        more: list[str] = []
        while "done" not in kinds(more):
            name, lines, number = next(report)
            assert name == "records"
            more += lines
        assert {"scale-out", "plan", "migrate", "done"} <= kinds(more)
        loop.detach()
        for name, data, _ in report:
            if name == "end":
                assert json.loads(data[0])["why"].startswith("detached")
                break
    with asked(server, "/events", headers={"Last-Event-ID": before or ""}) as response:
        report = events(response)
        assert next(report)[0] == "about"
        name, lines, _ = next(report)
        assert name == "records"  # and not a reset
        assert "attach" not in kinds(lines)
        assert "done" in kinds(lines)


@pytest.mark.parametrize("position", ["-1", "x", "9" * 5000, "99999999"])
def test_a_position_that_is_not_known_begins_anew(live: Any, position: str) -> None:
    *_, server = live
    with asked(server, "/events", headers={"Last-Event-ID": position}) as response:
        report = events(response)
        assert [next(report)[0] for _ in range(3)] == ["about", "reset", "records"]


def test_metrics_are_what_prometheus_reads(live: Any) -> None:
    *_, server = live
    with asked(server, "/metrics") as response:
        text = response.read().decode()
        assert response.headers["Content-Type"].startswith("text/plain; version=")
    families = {family.name for family in text_string_to_metric_families(text)}
    assert "elastream_executors" in families


def test_a_reader_that_never_reads_holds_no_one_up() -> None:
    run = Run("a run")
    cluster, loop = begun(run)
    with loop, PageServer(run, FREE) as server:
        place = urlsplit(server.url)
        with socket.create_connection((place.hostname, place.port)) as lazy:
            lazy.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            cluster.advance(200)
            assert loop.decisions
            with asked(server, "/events") as response:
                report = events(response)
                assert [next(report)[0] for _ in range(3)] == ["about", "reset", "records"]


def test_a_bounded_number_may_look_at_a_time(live: Any) -> None:
    *_, server = live
    place = urlsplit(server.url)
    readers = []
    for _ in range(33):
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        connection.request("GET", "/events")
        readers.append(connection)
    responses = [reader.getresponse() for reader in readers]
    assert sorted(response.status for response in responses) == [200] * 32 + [503]
    for response in responses:
        response.close()
    for reader in readers:
        reader.close()


def half_open(server: PageServer) -> socket.socket:
    """Return a connection that has begun a request and does not end it."""
    place = urlsplit(server.url)
    connection = socket.create_connection((place.hostname, place.port), HANG_S)
    connection.sendall(b"GET / HTTP/1.1\r\nX: ")
    return connection


def first_line(connection: socket.socket) -> str:
    with connection.makefile("rb") as file:
        return file.readline().decode().strip()


def test_a_bounded_number_of_connections_is_open_at_a_time() -> None:
    with (
        PageServer(Run("a run"), FREE, limits=Limits(connections=3)) as server,
        ExitStack() as all_,
    ):
        held = [all_.enter_context(half_open(server)) for _ in range(3)]
        place = urlsplit(server.url)
        for _ in range(20):
            with socket.create_connection((place.hostname, place.port), HANG_S) as refused:
                assert first_line(refused) == "HTTP/1.1 503 Service Unavailable"
        held[0].close()
        status, deadline = 503, time.monotonic() + HANG_S
        while status == 503 and time.monotonic() < deadline:
            with suppress(ConnectionError), asked(server, "/") as response:
                status = response.status
        assert status == 200


def test_a_request_that_never_ends_is_ended() -> None:
    limits = Limits(request_s=0.2)
    with PageServer(Run("a run"), FREE, limits=limits) as server, half_open(server) as slow:
        slow.settimeout(0.01)
        ended, deadline = False, time.monotonic() + HANG_S
        while not ended and time.monotonic() < deadline:
            try:
                slow.sendall(b"a")
                ended = slow.recv(1) == b""
            except TimeoutError:
                pass
            except OSError:
                ended = True
        assert ended


@pytest.mark.parametrize("head", ["GET /", "GET / HTTP/1.1\r\nX: "])
def test_a_request_that_is_too_large_is_refused(head: str) -> None:
    size = 1000
    with PageServer(Run("a run"), FREE, limits=Limits(head_bytes=size)) as server:
        place = urlsplit(server.url)
        with socket.create_connection((place.hostname, place.port), HANG_S) as large:
            large.sendall(head.ljust(size, "a").encode())  # all is read: none is left to reset it
            assert first_line(large).startswith("HTTP/1.1 431 ")


def test_a_connection_is_for_one_request(live: Any) -> None:
    *_, server = live
    for path in ("/", "/metrics", "/missing"):
        with asked(server, path) as response:
            assert response.headers["Connection"] == "close"
            response.read()


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_without_descriptors_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """It accepts once, pauses, and logs so; once there are descriptors the page answers."""
    refused = threading.Semaphore(0)

    class Seen(logging.Handler):
        def emit(self, _: logging.LogRecord) -> None:
            refused.release()

    caplog.set_level(logging.WARNING, "elastream.page.server")
    logger = logging.getLogger("elastream.page.server")
    logger.addHandler(seen := Seen())
    try:
        with PageServer(Run("a run"), FREE, limits=Limits(pause_s=0.05)) as server:
            place = urlsplit(server.url)
            with socket.socket() as client:
                client.settimeout(HANG_S)
                with no_descriptors_left():
                    client.connect((place.hostname, place.port))
                    assert refused.acquire(timeout=HANG_S)
                client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert first_line(client) == "HTTP/1.1 200 OK"
    finally:
        logger.removeHandler(seen)
    assert [record.getMessage() for record in caplog.records] == [
        "the page cannot accept connections for now: Too many open files"
    ]


def test_a_pause_for_descriptors_holds_and_ends_with_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts: list[None] = []
    accept, failed = socket.socket.accept, threading.Event()

    def counted(self: socket.socket) -> Any:
        attempts.append(None)
        try:
            return accept(self)
        except OSError:
            failed.set()
            raise

    monkeypatch.setattr(socket.socket, "accept", counted)
    server = PageServer(Run("a run"), FREE, limits=Limits(pause_s=3600))
    place = urlsplit(server.url)
    with socket.socket() as client, no_descriptors_left():
        client.connect((place.hostname, place.port))
        assert failed.wait(HANG_S)
        server.close()  # ends only where the pause does
    assert len(attempts) == 1


@pytest.mark.parametrize(
    ("page", "address"),
    [
        (4060, ("127.0.0.1", 4060)),
        ("4060", ("127.0.0.1", 4060)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:0", ("::1", 0)),
    ],
)
def test_a_page_is_a_port_or_a_host_and_a_port(page: int | str, address: object) -> None:
    assert page_address(page) == address


@pytest.mark.parametrize("page", ["", "x", "1:x", -1, 65536, True, "12.5", "9" * 5000])
def test_anything_else_is_refused(page: int | str) -> None:
    with pytest.raises(ProblemError, match="page: "):
        page_address(page)


def test_a_port_in_use_is_one_clear_line() -> None:
    with PageServer(Run("a run"), FREE) as server:
        port = urlsplit(server.url).port or 0
        with pytest.raises(ElastreamError, match=f"port {port}: Address already in use; give"):
            checked_address(port)


def test_a_page_that_is_closed_twice_is_closed() -> None:
    server = PageServer(Run("a run"), FREE)
    server.close()
    server.close()
