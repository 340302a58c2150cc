"""What Ctrl-C may do to a session: be heard by its caller, and not cut its end short."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Give the caller's handler back after a session was made.

    PySpark puts its own in the place, which calls into Java from within the call that was
    interrupted: the two get mixed up, and Python shows tracebacks of neither's fault.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Let nothing come in between: a second Ctrl-C would leave processes behind."""
    with interrupts_kept():
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        yield
