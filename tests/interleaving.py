"""A second thread that acts at a chosen moment of what the first one does, however fast both are.

Where what they share is guarded by a lock, the second one has to wait for it, and the first goes on
as soon as it does; else it acts there and then, in the middle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

__all__ = ["Interrupted", "SecondThread", "WatchedLock"]

K = TypeVar("K")
V = TypeVar("V")

PATIENCE_S = 600.0
"""How long a thread is waited for that must come before the test fails."""


class WatchedLock:
    """A lock that shows when a thread has to wait for it."""

    def __init__(self) -> None:
        self.awaited = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.awaited.set()
            assert self._lock.acquire(timeout=PATIENCE_S)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class SecondThread:
    """Acts when it is called, once; the call returns when it has acted, or waits for the lock."""

    def __init__(self, lock: WatchedLock, act: Callable[[], object]) -> None:
        self._met = lock.awaited
        self._act = act
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __call__(self) -> None:
        if self._thread.ident is None:
            self._met.clear()
            self._thread.start()
            assert self._met.wait(PATIENCE_S)

    def join(self) -> None:
        """Wait until it has acted."""
        self._thread.join(PATIENCE_S)
        assert self._thread.ident is not None, "it was never called"
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._act()
        finally:
            self._met.set()


class Interrupted(Mapping[K, V]):
    """A mapping that calls something as soon as somebody begins to read it."""

    def __init__(self, content: Mapping[K, V], call: Callable[[], None]) -> None:
        self._content = content
        self._call = call

    def __getitem__(self, key: K) -> V:
        return self._content[key]

    def __iter__(self) -> Iterator[K]:
        self._call()
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)
