"""How long commands on Spark behave at a terminal: they end cleanly, and Java keeps quiet."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_POLITE = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ended_like_by_ctrl_c() -> Iterator[None]:
    """Let a polite kill end a long command as Ctrl-C does, and both do so without a traceback.

    An interrupt cuts calls into Java short, in this thread and in those that listen to the query;
    what py4j logs of that, and what such a thread ends with, is not shown.
    """
    interrupted = threading.Event()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        interrupted.set()
        logging.disable(logging.CRITICAL)
        raise KeyboardInterrupt

    def thread_ended(failure: threading.ExceptHookArgs) -> None:
        if not interrupted.is_set():
            thread_hook(failure)

    thread_hook, threading.excepthook = threading.excepthook, thread_ended
    before = {number: signal.signal(number, interrupt) for number in _POLITE}
    try:
        yield
    except KeyboardInterrupt:
        print("elastream: interrupted; what was started has ended", file=sys.stderr)
        raise
    finally:
        logging.disable(logging.NOTSET)
        for number, handler in before.items():
            signal.signal(number, handler)
        threading.excepthook = thread_hook


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
    return " ".join(text_of(error).split()) or type(error).__name__


def text_of(error: BaseException) -> str:
    """Return what an error says, also one of PySpark's whose JVM has ended with the session."""
    try:
        return str(error)
    except AssertionError:  # PySpark asks the JVM how much to tell
        return str(getattr(error, "_desc", ""))
