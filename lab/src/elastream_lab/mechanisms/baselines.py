"""The baselines to beat, through the interface that live migration has too.

- **stock**: what Spark does by itself. An executor is added and nothing moves; one is taken away
  and its state partitions go wherever there is room.
- **pause**: stop the query at a batch boundary, start it again on its checkpoint. Nothing of the
  old run's state is taken over: every executor loads every partition that it gets. The pause-and-
  resume of paper 004, in one session.
- **restart**: stop the application, start a new one on the checkpoint. The kill-and-restart of
  Storm that paper 000 compares with (section 6, figure 15), with a new driver process.

A pause costs what loading all the state costs, and a restart that and the start of every process.
A live migration costs what one mini-migration costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from elastream_lab.mechanisms.application import Application
from elastream_lab.mechanisms.running_stream import RunningStream
from elastream_lab.mechanisms.sessions import resize


class Mechanism(Protocol):
    """Changes the number of executors of a running stream."""

    def scale_to(self, executors: int) -> None:
        """Return when the stream runs on this many executors and all that shall move has moved."""


class Stock:
    """Spark as it is: executors come and go, state stays where it is."""

    def __init__(self, stream: RunningStream) -> None:
        self._stream = stream

    def scale_to(self, executors: int) -> None:
        """Ask for executors, or kill the youngest."""
        resize(self._stream.internals, executors)


class Pause:
    """The query stops at a batch boundary and starts again on its checkpoint.

    ``warm`` readies executors that came, before the pause; ids in, nothing out.
    """

    def __init__(self, stream: RunningStream, warm: Callable[[Sequence[str]], None]) -> None:
        self._stream = stream
        self._warm = warm

    def scale_to(self, executors: int) -> None:
        """Let executors come before the pause, and go during it."""
        internals = self._stream.internals
        before = {entry.id for entry in internals.executors()}
        if executors > len(before):
            resize(internals, executors)
            self._warm([entry.id for entry in internals.executors() if entry.id not in before])
        self._stream.stop()
        resize(internals, executors)
        self._stream.start()


class Restart:
    """The application stops and a new one, with a driver process of its own, goes on."""

    def __init__(self, application: Application) -> None:
        self.application = application

    def scale_to(self, executors: int) -> None:
        """End the application at a batch boundary, then start another."""
        self.application = self.application.replaced(executors)
