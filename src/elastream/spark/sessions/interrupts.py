"""Ctrl-C while a session runs: it reaches the caller, and does not cut the session's end short."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Give the caller's handler back after a session was made.

    PySpark installs its own, which calls into Java from within the call that was interrupted: the
    two get mixed up, and Python shows tracebacks that neither has caused.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C: a second one would leave processes behind."""
    with interrupts_kept():
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        yield
