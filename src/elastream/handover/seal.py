"""Messages on the wire: a line of JSON each, sealed with the token that both sides share.

The token itself is never sent. A seal (HMAC-SHA-256) covers who speaks, a nonce of each side, the
number of the line within the connection, and the message; so a line can neither be made without
the token, nor be changed, nor be played again in this or another connection. It is not encrypted.
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
from elastream.model.checks import shown
from elastream.model.errors import ProblemError

__all__ = [
    "LONGEST_LINE",
    "Seal",
    "WrongSealError",
    "greeting",
    "greeting_nonce",
    "new_nonce",
    "nonce_of",
    "read_token",
    "refusal",
    "refusal_in",
]

LONGEST_LINE: Final = 1 << 16
"""Bytes. A longer line is not ours."""

_VERSION: Final = 1
_SHORTEST_TOKEN: Final = 16
_NONCE: Final = re.compile(r"[0-9a-f]{32}")


class WrongSealError(ProblemError):
    """A line was not sealed with our token, or not for this connection."""


@dataclass(frozen=True, slots=True)
class Seal:
    """One direction of a connection: what the next line must be sealed with."""

    token: str
    speaker: Side
    origin_nonce: str
    target_nonce: str
    lines: int = 0
    """How many lines went before."""

    def line(self, message: Message) -> tuple[Seal, bytes]:
        """Return the sealed line of a message, and the seal of the next."""
        body = members_of(message)
        told = {
            "nonce": self.target_nonce,
            "line": self.lines,
            "body": body,
            "mac": self._mac(body),
        }
        return replace(self, lines=self.lines + 1), json.dumps(told).encode() + b"\n"

    def message(self, line: bytes) -> tuple[Seal, Message]:
        """Return the message of a sealed line, and the seal of the next."""
        told = _members(line)
        mac, body = told.get("mac"), told.get("body")
        if not isinstance(mac, str) or not mac.isascii():
            raise WrongSealError("", "the line has no seal")
        if told.get("line") != self.lines or not hmac.compare_digest(mac, self._mac(body)):
            raise WrongSealError("", "wrong token")
        return replace(self, lines=self.lines + 1), from_members(body)

    def _mac(self, body: object) -> str:
        sealed = [self.speaker, self.origin_nonce, self.target_nonce, self.lines, body]
        text = json.dumps(sealed, sort_keys=True, separators=(",", ":"))
        return hmac.new(self.token.encode(), text.encode(), hashlib.sha256).hexdigest()


def new_nonce() -> str:
    """Return a nonce that nobody can guess."""
    return secrets.token_hex(16)


def greeting(nonce: str) -> bytes:
    """Return the origin's first line."""
    return json.dumps({"elastream-handover": _VERSION, "nonce": nonce}).encode() + b"\n"


def greeting_nonce(line: bytes) -> str:
    """Return the nonce in the origin's first line."""
    told = _members(line)
    if told.get("elastream-handover") != _VERSION:
        raise ProblemError("address", "whoever listens there does not speak this protocol")
    return _nonce(told)


def nonce_of(line: bytes) -> str:
    """Return the target's nonce, which each of its lines carries."""
    return _nonce(_members(line))


def refusal(why: str) -> bytes:
    """Return the line, not sealed, that tells a stranger why it is turned away."""
    return json.dumps({"refused": why}).encode() + b"\n"


def refusal_in(line: bytes) -> str | None:
    """Return why we are turned away; ``None`` where the line is something else."""
    why = _members(line).get("refused")
    return shown(why)[1:-1] if isinstance(why, str) else None


def read_token(path: Path, *, create: bool = False) -> str:
    """Return the token in the file; with ``create`` make one that only its owner can read.

    A file that more than its owner can write, or more than its group can read, is refused: whoever
    has the token can take the query. A group may read it, since the two sides may be two users.
    """
    try:
        if create and not path.exists():
            write_text(path, secrets.token_urlsafe(32) + "\n", mode=0o600)
        with path.open() as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            token = file.read().strip()
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
        told = json.loads(line)
    except (ValueError, RecursionError):
        raise WrongSealError("", "the line is not JSON") from None
    if not isinstance(told, dict):
        raise WrongSealError("", "the line is no JSON object")
    return told


def _nonce(told: dict[str, object]) -> str:
    nonce = told.get("nonce")
    if not isinstance(nonce, str) or not _NONCE.fullmatch(nonce):
        raise WrongSealError("", "the line has no nonce")
    return nonce
