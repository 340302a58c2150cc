"""Messages on the wire: one line of JSON each, sealed with the token that both sides share.

The token itself is never sent. A seal (HMAC-SHA-256) covers the sender, a nonce of each side, the
number of the line within the connection, and the message. So a line can neither be made without the
token, nor be changed, nor be replayed in this or another connection. Encryption is TLS's, beyond
loopback (``certificates.py``).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from elastream.atomic_io import write_text
from elastream.handover.ledger import Side
from elastream.handover.messages import Message, from_members, members_of
from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError

LONGEST_LINE: Final = 1 << 16
"""Bytes. A longer line is rejected."""

_VERSION: Final = 1
_SHORTEST_TOKEN: Final = 16
_NONCE: Final = re.compile(r"[0-9a-f]{32}")


class WrongSealError(ProblemError):
    """A line was not sealed with our token, or not for this connection."""


@dataclass(frozen=True, slots=True)
class Seal:
    """One direction of a connection: the inputs of the next line's seal."""

    token: str
    speaker: Side
    origin_nonce: str
    target_nonce: str
    lines: int = 0
    """Number of previous lines."""

    def line(self, message: Message) -> tuple[Seal, bytes]:
        """Return the sealed line of a message, and the seal of the next."""
        body = members_of(message)
        fields = {
            "nonce": self.target_nonce,
            "line": self.lines,
            "body": body,
            "mac": self._mac(body),
        }
        return replace(self, lines=self.lines + 1), json.dumps(fields).encode() + b"\n"

    def message(self, line: bytes) -> tuple[Seal, Message]:
        """Return the message of a sealed line, and the seal of the next."""
        fields = _members(line)
        mac, body = fields.get("mac"), fields.get("body")
        if not isinstance(mac, str) or not mac.isascii():
            raise WrongSealError("", "the line has no seal")
        if fields.get("line") != self.lines or not hmac.compare_digest(mac, self._mac(body)):
            raise WrongSealError("", "wrong token")
        return replace(self, lines=self.lines + 1), from_members(body)

    def _mac(self, body: object) -> str:
        sealed = [self.speaker, self.origin_nonce, self.target_nonce, self.lines, body]
        text = json.dumps(sealed, sort_keys=True, separators=(",", ":"))
        return hmac.new(self.token.encode(), text.encode(), hashlib.sha256).hexdigest()


def new_nonce() -> str:
    """Return an unguessable nonce."""
    return secrets.token_hex(16)


def greeting(nonce: str) -> bytes:
    """Return the origin's first line."""
    return json.dumps({"elastream-handover": _VERSION, "nonce": nonce}).encode() + b"\n"


def greeting_nonce(line: bytes) -> str:
    """Return the nonce of the origin's first line."""
    fields = _members(line)
    if fields.get("elastream-handover") != _VERSION:
        raise ProblemError("address", "whoever listens there does not speak this protocol")
    return _nonce(fields)


def nonce_of(line: bytes) -> str:
    """Return the target's nonce, which each of its lines carries."""
    return _nonce(_members(line))


def refusal(why: str) -> bytes:
    """Return the unsealed line that reports to a stranger why it is rejected."""
    return json.dumps({"refused": why}).encode() + b"\n"


def refusal_in(line: bytes) -> str | None:
    """Return why we are rejected; ``None`` if the line is something else."""
    why = _members(line).get("refused")
    return abbreviate(why)[1:-1] if isinstance(why, str) else None


def read_token(path: Path, *, create: bool = False) -> str:
    """Return the token in the file; with ``create`` make one that only its owner can read.

    A file that others than its owner can write, or others than its group can read, is rejected: a
    holder of the token can take the query. A group may read it, since the two sides may be two
    users.
    """
    try:
        if create and not path.exists():
            write_text(path, secrets.token_urlsafe(32) + "\n", mode=0o600)
        with path.open() as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            token = file.read().strip().partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(str(path), f"the token cannot be read: {error}") from None
    if len(token) < _SHORTEST_TOKEN:
        raise ProblemError(str(path), f"the token has fewer than {_SHORTEST_TOKEN} characters")
    if mode & ~0o740:
        why = f"is open to others, its mode is {mode:o}: make another token, and chmod 600 its file"
        raise ProblemError(str(path), why)
    return token


def _members(line: bytes) -> dict[str, object]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise WrongSealError("", "the line is not JSON") from None
    if not isinstance(fields, dict):
        raise WrongSealError("", "the line is not a JSON object")
    return fields


def _nonce(fields: dict[str, object]) -> str:
    nonce = fields.get("nonce")
    if not isinstance(nonce, str) or not _NONCE.fullmatch(nonce):
        raise WrongSealError("", "the line has no nonce")
    return nonce
