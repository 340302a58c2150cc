"""The token of a door that others can reach: a file that only its user reads."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from elastream.atomic_io import write_text
from elastream.model.errors import ProblemError

LEAST: Final = 16
"""Characters of a token."""
_MOST: Final = 512
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def token_in(path: Path, *, field: str, make: bool = False) -> str:
    """Return the token in a file; ``make``: where there is none, a random one is written there."""
    try:
        if make and not path.exists():
            write_text(path, f"{secrets.token_urlsafe(32)}\n", mode=0o600)
        mode, text = path.stat().st_mode, path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ProblemError(field, f"{path} cannot be used: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ProblemError(field, f"{path} holds no token, a line of ASCII") from None
    if os.name == "posix" and mode & _OTHERS:
        raise ProblemError(field, f"{path} can be read by others; make its mode 0600")
    if not LEAST <= len(text) <= _MOST or not text.isprintable() or " " in text:
        raise ProblemError(field, f"{path} holds no token: {LEAST} to {_MOST} characters, one word")
    return text
