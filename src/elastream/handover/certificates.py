"""TLS between two sides, without an authority: the token names the origin's certificate.

An origin that listens beyond loopback makes a key and a certificate for itself, once, next to its
token, and writes the certificate's fingerprint into the token's file. Whoever has the file accepts
no other certificate. The token still seals every line: it shows the origin who the target is. A
token file without a fingerprint is for loopback, where a tunnel may begin.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import socket
import ssl
import stat
import subprocess
from pathlib import Path
from typing import Final

from elastream.atomic_io import write_text
from elastream.model.errors import ProblemError

_FINGERPRINT: Final = re.compile(r"^sha256:([0-9a-f]{64})$", re.MULTILINE)
_MAKE: Final = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 "
    "-subj /CN=elastream-handover -keyout /dev/stdout -out /dev/stdout"
)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in found)


def fingerprint_in(token_file: Path) -> str | None:
    """Return the fingerprint of the origin's certificate; ``None`` if the file names none."""
    found = _FINGERPRINT.search(token_file.read_text())
    return None if found is None else found[1]


def certificate_of(token_file: Path, host: str) -> ssl.SSLContext | None:
    """Return what an origin listens with; ``None`` on loopback, if the token names nothing else.

    A key and certificate of your own may lie next to the token, as ``TOKEN.pem``.
    """
    if is_loopback(host) and fingerprint_in(token_file) is None:
        return None
    path = token_file.with_name(f"{token_file.name}.pem")
    if not path.exists():
        write_text(path, _made(path), mode=0o600)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ProblemError(str(path), "holds a key and is open to others: chmod 600")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    try:
        context.load_cert_chain(path)
        fingerprint = _fingerprint(path)
    except (OSError, ValueError) as error:
        raise ProblemError(str(path), f"is not a key and a certificate: {error}") from None
    if fingerprint_in(token_file) != fingerprint:
        _name(token_file, fingerprint)
    return context


def connected(plain: socket.socket, fingerprint: str) -> ssl.SSLSocket:
    """Return the connection to the origin that has this certificate, and to no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # compared below instead
    secured = context.wrap_socket(plain)
    shown = secured.getpeercert(binary_form=True) or b""
    if hashlib.sha256(shown).hexdigest() != fingerprint:
        secured.close()
        why = "shows another certificate than the token file names; copy the origin's token again"
        raise ProblemError("address", why)
    return secured


def _made(path: Path) -> str:
    try:
        done = subprocess.run(_MAKE.split(), capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError) as error:
        why = f"cannot be made by openssl ({error}): install it, or put a key and certificate there"
        raise ProblemError(str(path), why) from None
    return done.stdout


def _fingerprint(path: Path) -> str:
    text = path.read_text()
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    certificate = text[text.index(begin) : text.index(end) + len(end)] + "\n"
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()


def _name(token_file: Path, fingerprint: str) -> None:
    """Write the fingerprint into the token's file, and leave the token and its readers."""
    token = token_file.read_text().split("\n", 1)[0]
    mode = stat.S_IMODE(token_file.stat().st_mode)
    try:
        write_text(token_file, f"{token}\nsha256:{fingerprint}\n", mode=mode)
    except OSError as error:
        why = f"cannot be given the certificate's fingerprint: {error.strerror}"
        raise ProblemError(str(token_file), why) from None
