"""How long commands on Spark behave at a terminal: they end cleanly, and Java keeps quiet."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["ended_like_by_ctrl_c", "java_kept_quiet"]


@contextmanager
def ended_like_by_ctrl_c() -> Iterator[None]:
    """Let a polite kill end a long command as Ctrl-C does, with everything it started."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def java_kept_quiet() -> Iterator[None]:
    """Keep what Spark's processes write to standard error off the screen.

    They inherit the descriptor when they start, so it is another one meanwhile. Python's own
    ``sys.stderr`` goes on to the screen. With ``ELASTREAM_DEBUG`` all is seen.
    """
    if os.environ.get("ELASTREAM_DEBUG"):
        yield
        return
    sys.stderr.flush()
    screen = os.dup(2)
    ours = sys.stderr
    with tempfile.TemporaryFile() as unseen, os.fdopen(os.dup(screen), "w") as stderr:
        os.dup2(unseen.fileno(), 2)
        sys.stderr = stderr
        try:
            yield
        finally:
            os.dup2(screen, 2)
            os.close(screen)
            sys.stderr = ours
