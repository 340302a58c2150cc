"""The right to act: an action that was given up is not carried out later."""

from __future__ import annotations

import threading

from elastream.model.errors import GivenUpError


class Ticket:
    """Says whether what was asked for is still wanted."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()

    @property
    def valid(self) -> bool:
        """Whether it is still wanted."""
        return not self._cancelled.is_set()

    def cancel(self) -> None:
        """Want it no more. Harmless if repeated."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise ``GivenUpError`` where it is wanted no more."""
        if not self.valid:
            raise GivenUpError("it was given up meanwhile")

    def wait(self, seconds: float) -> None:
        """Sleep; raises ``GivenUpError`` as soon as it is wanted no more."""
        self._cancelled.wait(seconds)
        self.check()
