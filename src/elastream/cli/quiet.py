"""Long commands at a terminal: they end cleanly on Ctrl-C, and Java's output is hidden."""

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

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ended_like_by_ctrl_c() -> Iterator[None]:
    """Let SIGTERM end a long command as Ctrl-C does, both without a traceback.

    An interrupt cuts calls into Java short, also in threads that listen to the query; what py4j
    logs of that, and the errors of such threads, are not shown.
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
    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
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
    """Hide what Spark's processes write to standard error, unless ``ELASTREAM_DEBUG`` is set.

    They inherit the descriptor, so it is replaced. Python's own ``sys.stderr`` still goes to the
    screen.
    """
    if os.environ.get("ELASTREAM_DEBUG"):
        yield
        return
    sys.stderr.flush()
    screen = os.dup(2)
    ours = sys.stderr
    with tempfile.TemporaryFile() as hidden, os.fdopen(os.dup(screen), "w") as stderr:
        os.dup2(hidden.fileno(), 2)
        sys.stderr = stderr
        try:
            yield
        finally:
            os.dup2(screen, 2)
            os.close(screen)
            sys.stderr = ours


def line_of_failure(error: BaseException) -> str:
    """Return the error that ended a run, in one line."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return " ".join(text_of(error).split()) or type(error).__name__


def text_of(error: BaseException) -> str:
    """Return the message of an error, also of PySpark's whose JVM has ended."""
    try:
        return str(error)
    except AssertionError:  # PySpark asks the JVM for the details
        return str(getattr(error, "_desc", ""))
