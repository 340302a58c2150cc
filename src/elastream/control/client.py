"""Asking a running loop, at its socket or its page."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from elastream.control.commands import LONGEST, Answer
from elastream.control.local_door import ask_locally
from elastream.control.token_file import token_in
from elastream.model.checks import abbreviate
from elastream.model.errors import ElastreamError, ProblemError

_TIMEOUT_S: Final = 30.0
_LONGEST_ANSWER: Final = 64 << 20


def ask(
    target: str,
    record: Mapping[str, Any],
    *,
    token_file: Path | None = None,
    certificate: Path | None = None,
) -> Answer:
    """Give a command to the loop at ``target``, a path or a URL, and return its answer.

    Raises ``ElastreamError`` where it cannot be asked. A token is sent to this machine or over
    HTTPS alone. ``certificate`` is trusted in addition to those that the machine trusts.
    """
    if len(json.dumps(record)) > LONGEST:
        raise ProblemError("command", f"has more than {LONGEST} bytes")
    if not target.startswith(("http://", "https://")):
        return ask_locally(Path(target), dict(record), timeout_s=_TIMEOUT_S)
    if token_file is None:
        raise ProblemError("token_file", "is needed for a page: the file that holds its token")
    token = token_in(token_file, field="token_file")
    connection = _connection(target, certificate)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", "/control", json.dumps(record).encode(), headers)
        response = connection.getresponse()
        text = response.read(_LONGEST_ANSWER)
    except (OSError, http.client.HTTPException) as error:
        why = str(error) or type(error).__name__
        raise ElastreamError(f"{target}: {why}") from None
    finally:
        connection.close()
    if response.headers.get_content_type() == "application/json":
        return Answer.of(text)
    said = text.decode(errors="replace").strip() if response.status < 500 else response.reason
    raise ElastreamError(f"{target}: {said.splitlines()[0] if said else response.status}")


def _connection(target: str, certificate: Path | None) -> http.client.HTTPConnection:
    try:
        parts = urlsplit(target)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None:
        raise ProblemError("target", f"{abbreviate(target)} is not a URL with a host")
    if parts.scheme == "https":
        try:
            context = ssl.create_default_context(cafile=certificate)
        except (OSError, ssl.SSLError) as error:
            why = f"{certificate} cannot be used: {error}"
            raise ProblemError("certificate", why) from None
        return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=context)
    if not _is_here(host):
        why = "would send the token where others can read it: use https, or a tunnel from here"
        raise ProblemError("target", why)
    return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
