"""TLS beyond loopback: the token's file names the one certificate that is taken."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from tests.handover.sides import SHAPE

from elastream.handover.certificates import certificate_of, fingerprint_in, is_loopback
from elastream.handover.messages import Join, Taken
from elastream.handover.seal import read_token
from elastream.handover.transport import Address, OriginServer, TargetLink
from elastream.model.errors import ProblemError

EVERYWHERE = "0.0.0.0"


def origin(folder: Path) -> tuple[OriginServer, Path]:
    token_file = folder / "token"
    token = read_token(token_file, create=True)
    tls = certificate_of(token_file, EVERYWHERE)
    assert tls is not None
    return OriginServer(Address(), token, tls=tls), token_file


def test_messages_go_both_ways_through_tls_and_at_the_same_time(tmp_path: Path) -> None:
    server, token_file = origin(tmp_path)
    link = TargetLink.of(server.address, token_file)
    link.send(Join("h", SHAPE))
    assert server.receive(60) == Join("h", SHAPE)

    def answer() -> None:
        for _ in range(100):
            server.send(Taken("h"))

    answering = threading.Thread(target=answer)
    answering.start()
    for _ in range(100):
        link.send(Taken("h"))
    assert [server.receive(60) for _ in range(100)] == [Taken("h")] * 100
    assert [link.receive(60) for _ in range(100)] == [Taken("h")] * 100
    answering.join()
    link.close()
    server.close()


def test_nothing_that_is_said_can_be_read_on_the_way(tmp_path: Path) -> None:
    server, token_file = origin(tmp_path)
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as between:

        def carry(one: socket.socket, other: socket.socket) -> None:
            with suppress(OSError):
                while data := one.recv(4096):
                    heard.extend(data)
                    other.sendall(data)
                other.shutdown(socket.SHUT_WR)

        def listen() -> None:
            accepted, _ = between.accept()
            where = (server.address.host, server.address.port)
            with accepted, socket.create_connection(where) as onward:
                back = threading.Thread(target=carry, args=(onward, accepted))
                back.start()
                carry(accepted, onward)
                back.join()

        listening = threading.Thread(target=listen)
        listening.start()
        link = TargetLink.of(Address(port=between.getsockname()[1]), token_file)
        link.send(Join("a name that is not to be seen", SHAPE))
        assert server.receive(60) == Join("a name that is not to be seen", SHAPE)
        link.close()
        listening.join()
    server.close()
    assert heard
    assert b"a name" not in heard


def test_another_certificate_is_not_taken_for_the_origins(tmp_path: Path) -> None:
    server, token_file = origin(tmp_path)
    token = read_token(token_file)
    other = tmp_path / "other"
    other.write_text(f"{token}\nsha256:{'0' * 64}\n")
    other.chmod(0o600)
    link = TargetLink.of(server.address, other)
    with pytest.raises(ProblemError, match="another certificate than the token file names"):
        link.send(Join("h", SHAPE))
    server.close()


def test_whoever_does_not_speak_tls_is_not_heard(tmp_path: Path) -> None:
    server, token_file = origin(tmp_path)
    plain = TargetLink(server.address, read_token(token_file))
    with pytest.raises(ProblemError, match="does not speak this protocol"):
        plain.send(Join("h", SHAPE))
    link = TargetLink.of(server.address, token_file)
    link.send(Join("h", SHAPE))
    assert server.receive(60) == Join("h", SHAPE)
    link.close()
    server.close()


def test_the_certificate_is_made_once_and_kept_from_others(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token = read_token(token_file, create=True)
    assert certificate_of(token_file, "127.0.0.1") is None
    certificate_of(token_file, EVERYWHERE)
    first, pem = fingerprint_in(token_file), tmp_path / "token.pem"
    assert first is not None
    assert pem.stat().st_mode & 0o077 == 0
    assert token_file.stat().st_mode & 0o077 == 0
    assert certificate_of(token_file, "127.0.0.1") is not None  # named once, always spoken
    assert fingerprint_in(token_file) == first
    assert read_token(token_file) == token
    pem.chmod(0o644)
    with pytest.raises(ProblemError, match="is open to others: chmod 600"):
        certificate_of(token_file, EVERYWHERE)
    pem.write_text("no certificate")
    pem.chmod(0o600)
    with pytest.raises(ProblemError, match="is not a key and a certificate"):
        certificate_of(token_file, EVERYWHERE)


def test_a_machine_without_openssl_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_token(tmp_path / "token", create=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProblemError, match="install it, or put a key and certificate there"):
        certificate_of(tmp_path / "token", EVERYWHERE)


def test_a_token_without_a_certificate_is_for_loopback_alone(tmp_path: Path) -> None:
    read_token(tmp_path / "token", create=True)
    with pytest.raises(ProblemError, match=r"names no certificate, and 192\.0\.2\.1:7 is beyond"):
        TargetLink.of(Address("192.0.2.1", 7), tmp_path / "token")
    TargetLink.of(Address("localhost", 7), tmp_path / "token")
    hosts = ("127.0.0.1", "127.8.8.8", "::1", "localhost", EVERYWHERE, "192.0.2.1", "no.such.host.")
    assert [is_loopback(host) for host in hosts] == [True] * 4 + [False] * 3


def test_old_tls_is_refused(tmp_path: Path) -> None:
    server, _ = origin(tmp_path)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    where = (server.address.host, server.address.port)
    with socket.create_connection(where, timeout=60) as plain, pytest.raises(ssl.SSLError):
        old.wrap_socket(plain)
    server.close()
