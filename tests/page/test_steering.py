"""Commands through the page: only with its token, only from itself, only where nobody listens."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.control.steered import Steered, steered

from elastream import ElastreamError, ProblemError
from elastream.control.client import ask
from elastream.control.commands import LONGEST
from elastream.page.run import Run
from elastream.page.server import Limits, PageDoor, PageServer, checked_certificate

FREE = ("127.0.0.1", 0)
TOKEN = "a-token-of-forty-characters-or-some-less"
PAUSE = b'{"command": "pause"}'
HANG_S = 120.0


@pytest.fixture
def loop() -> Iterator[Steered]:
    with steered() as found:
        yield found


@pytest.fixture
def server(loop: Steered) -> Iterator[PageServer]:
    with PageServer(Run("a run"), FREE, door=PageDoor(loop.door, TOKEN)) as made:
        yield made


def headers(server: PageServer, **changed: str | None) -> dict[str, str]:
    place = urlsplit(server.url).netloc
    usual: dict[str, str | None] = {
        "Host": place,
        "Origin": f"http://{place}",
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
    }
    usual |= {name.replace("_", "-"): value for name, value in changed.items()}
    return {name: value for name, value in usual.items() if value is not None}


def posted(
    server: PageServer, body: bytes = PAUSE, path: str = "/control", **changed: str | None
) -> tuple[int, str]:
    place = urlsplit(server.url)
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=HANG_S)
    try:
        connection.request("POST", path, body, headers(server, **changed))
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_with_the_token_a_command_is_carried_out_and_logged(
    server: PageServer, loop: Steered
) -> None:
    status, text = posted(server)
    assert status == 200
    says = "paused, asked for by the token's holder at 127.0.0.1"
    assert json.loads(text)["says"].startswith(says)
    assert loop.loop.of("pause")[-1].reason.startswith(says)
    assert posted(server)[0] == 409, "it is paused already"


@pytest.mark.parametrize(
    "given",
    [None, "", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer ü"],
)
def test_without_the_token_nothing_is_done(
    server: PageServer, loop: Steered, given: str | None
) -> None:
    changed = None if given is None else given.encode().decode("latin-1")
    assert posted(server, Authorization=changed)[0] == 401
    assert loop.commands == []


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "x"])
def test_a_request_that_another_site_makes_a_browser_send_is_refused(
    server: PageServer, loop: Steered, origin: str
) -> None:
    assert posted(server, Origin=origin)[0] == 403
    assert posted(server, Origin=None, Sec_Fetch_Site="cross-site")[0] == 403
    assert posted(server, Origin=None, Sec_Fetch_Site="same-site")[0] == 403
    assert loop.commands == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_form_is_no_command(server: PageServer, loop: Steered, kind: str | None) -> None:
    assert posted(server, Content_Type=kind)[0] == 415
    assert loop.commands == []


def test_a_name_that_leads_here_from_elsewhere_is_refused_with_the_token(
    server: PageServer, loop: Steered
) -> None:
    port = urlsplit(server.url).port
    for host in (f"evil.example:{port}", "evil.example", "192.0.2.7"):
        assert posted(server, Host=host, Origin=f"http://{host}")[0] == 403
    assert loop.commands == []


@pytest.mark.parametrize("length", [None, "0", "-1", "x", str(LONGEST + 1), "9" * 30])
def test_a_command_without_a_sensible_length_is_refused(
    server: PageServer, loop: Steered, length: str | None
) -> None:
    place = urlsplit(server.url)
    lines = [f"{name}: {value}" for name, value in headers(server).items()]
    lines += [] if length is None else [f"Content-Length: {length}"]
    head = "\r\n".join(["POST /control HTTP/1.1", *lines, "", ""]).encode()
    with socket.create_connection(("127.0.0.1", place.port or 0), timeout=HANG_S) as connection:
        connection.sendall(head + PAUSE)
        assert connection.recv(999).startswith(b"HTTP/1.1 411 ")
    assert loop.commands == []


def test_a_command_that_is_cut_short_or_slow_is_not_carried_out(loop: Steered) -> None:
    limits = Limits(request_s=0.3)
    with PageServer(Run("a run"), FREE, door=PageDoor(loop.door, TOKEN), limits=limits) as server:
        place = urlsplit(server.url)
        lines = [f"{name}: {value}" for name, value in headers(server).items()]
        lines.append(f"Content-Length: {len(PAUSE)}")
        head = "\r\n".join(["POST /control HTTP/1.1", *lines, "", ""]).encode()
        for end in (socket.SHUT_WR, None):
            with socket.create_connection(("127.0.0.1", place.port or 0), HANG_S) as connection:
                connection.sendall(head + PAUSE[:-1])
                if end is not None:
                    connection.shutdown(end)
                assert connection.recv(999) == b""
        assert loop.commands == []


def test_a_damaged_command_is_answered(server: PageServer) -> None:
    status, text = posted(server, b"pause")
    assert (status, json.loads(text)["says"]) == (409, "a command is not JSON")


def test_other_paths_and_methods_take_nothing(server: PageServer, loop: Steered) -> None:
    assert posted(server, path="/")[0] == 501
    assert posted(server, path="/events")[0] == 501
    with PageServer(Run("a run"), FREE) as closed:
        assert posted(closed)[0] == 501
    assert loop.commands == []


def test_a_token_is_not_taken_in_the_clear_from_other_hosts(loop: Steered) -> None:
    with pytest.raises(ProblemError, match="page_token: could be read on its way"):
        PageServer(Run("a run"), ("0.0.0.0", 0), door=PageDoor(loop.door, TOKEN))


def test_a_client_sends_its_token_in_the_clear_to_this_machine_alone(
    server: PageServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    assert ask(server.url, {"command": "status"}, token_file=token).taken
    with pytest.raises(ProblemError, match="target: would send the token where others"):
        ask("http://192.0.2.7:4060/", {"command": "status"}, token_file=token)
    with pytest.raises(ProblemError, match="token_file: is needed"):
        ask(server.url, {"command": "status"})
    token.write_text("another-token-that-is-wrong")
    with pytest.raises(ElastreamError, match="the token is missing or wrong"):
        ask(server.url, {"command": "status"}, token_file=token)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "certificate")]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    both = folder / "page.pem"
    both.write_text((folder / "key").read_text() + (folder / "certificate").read_text())
    return both


def test_over_https_other_hosts_may_steer_with_the_token(
    loop: Steered, certificate: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    door = PageDoor(loop.door, TOKEN)
    with PageServer(Run("a run"), ("0.0.0.0", 0), door=door, certificate=certificate) as server:
        url = server.url.replace("0.0.0.0", "localhost")
        assert url.startswith("https://")
        trusted = certificate.with_name("certificate")
        answer = ask(url, {"command": "pause"}, token_file=token, certificate=trusted)
        assert answer.taken
        with pytest.raises(ElastreamError, match="certificate verify failed"):
            ask(url, {"command": "pause"}, token_file=token)
        port = urlsplit(url).port
        plain = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_S)
        with pytest.raises((http.client.HTTPException, OSError)):
            pause_by(plain)
    assert len(loop.commands) == 1


def pause_by(plain: http.client.HTTPConnection) -> http.client.HTTPResponse:
    plain.request("POST", "/control", PAUSE, {"Authorization": f"Bearer {TOKEN}"})
    return plain.getresponse()


def test_a_client_that_never_shakes_hands_holds_up_nobody(loop: Steered, certificate: Path) -> None:
    door = PageDoor(loop.door, TOKEN)
    with (
        PageServer(Run("a run"), FREE, door=door, certificate=certificate) as server,
        socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0)),
    ):
        context = ssl.create_default_context(cafile=certificate.with_name("certificate"))
        port = urlsplit(server.url).port
        other = http.client.HTTPSConnection("127.0.0.1", port, timeout=HANG_S, context=context)
        other.request("GET", "/metrics")
        assert other.getresponse().status == 200
        other.close()


def test_what_is_no_certificate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("text")
    for name in ("x.pem", "none.pem"):
        with pytest.raises(ProblemError, match=r"page_certificate: .* is not a PEM file"):
            checked_certificate(tmp_path / name)


@contextmanager
def network_namespace() -> Iterator[Any]:
    """Yield how to run a command as if on another host; its loopback is its own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can make a network of its own")
    if subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine allows no network of its own")
    yield lambda *command: subprocess.run(
        ["unshare", "--net", *command], check=False, capture_output=True, text=True
    )


def test_from_another_host_s_network_the_page_of_this_one_is_not_there(
    server: PageServer, loop: Steered
) -> None:
    port = urlsplit(server.url).port
    program = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
    with network_namespace() as elsewhere:
        assert elsewhere("python3", "-c", program).returncode != 0
    assert loop.commands == []
