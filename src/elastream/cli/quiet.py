"""How long commands on Spark behave at a terminal: they end cleanly, and Java keeps quiet."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["ended_like_by_ctrl_c", "java_kept_quiet", "line_of_failure"]


@contextmanager
def ended_like_by_ctrl_c() -> Iterator[None]:
    """Let a polite kill end a long command as Ctrl-C does, and both do so without a traceback."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    logging.getLogger().addFilter(_no_interrupt)
    try:
        yield
    except KeyboardInterrupt:
        print("elastream: interrupted; what was started has ended", file=sys.stderr)
        raise
    finally:
        logging.getLogger().removeFilter(_no_interrupt)
        signal.signal(signal.SIGTERM, before)


def _no_interrupt(record: logging.LogRecord) -> bool:
    """Pass over what py4j logs when an interrupt cuts a call short."""
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


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


def line_of_failure(error: BaseException) -> str:
    """Return in one line what ended a run."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return " ".join(str(error).split()) or type(error).__name__
