"""Movers on hosts: a migration is carried out with real bytes, over links of limited bandwidth.

The state of a task is a file below its host's own ``/tmp``, of bytes drawn at random. Orders go
to movers by their standard input, not over the network; a round begins when all of the round before
has been written by those who receive it. At the end every file is held against the one it came of.
"""

from __future__ import annotations

import contextlib
import filecmp
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from elastream.model.errors import ElastreamError
from elastream_lab.hosts.network import Host, Network, network
from elastream_lab.studies.transfer.migrations import Migration
from elastream_lab.studies.transfer.mover import state_file
from elastream_lab.studies.transfer.ways import Order, Way, free_to_begin, rounds, whole_tasks

_PATIENCE_S = 600.0
_FOLDER = "states"


class _Mover:
    """One of them."""

    def __init__(self, host: Host, done: queue.SimpleQueue[int | None]) -> None:
        self.host = host
        self._done = done
        self.folder = host.tmp / _FOLDER
        self.folder.mkdir()
        program = ("-m", "elastream_lab.studies.transfer.mover", host.address, f"/tmp/{_FOLDER}")  # noqa: S108
        self.process = host.start(sys.executable, *program)
        assert self.process.stdout is not None  # noqa: S101 - started so
        if self.process.stdout.readline() != '"ready"\n':
            raise ElastreamError(f"the mover of {host.name} did not start")
        threading.Thread(target=self._listen, daemon=True).start()

    def order(self, number: int, to: str, pieces: Sequence[tuple[int, int, int]]) -> None:
        """Let pieces of its files be sent."""
        assert self.process.stdin is not None  # noqa: S101 - started so
        said = {"order": number, "to": to, "pieces": pieces}
        self.process.stdin.write(json.dumps(said) + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Let it end."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None  # noqa: S101 - started so
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - started so
        with contextlib.suppress(ValueError):  # closed
            for line in self.process.stdout:
                self._done.put(int(line))
        self._done.put(None)


class Movers:
    """Movers of this many nodes, and the network between them."""

    def __init__(self, net: Network, movers: Sequence[_Mover], done: queue.SimpleQueue[int | None]):
        self.net = net
        self._movers = movers
        self._done = done
        self._number = 0

    def measured_s(self, migration: Migration, way: Way) -> float:
        """Carry a migration out, and return how long that took; raises where a file came wrong."""
        self._make(migration)
        self._join(migration)
        planned = [whole_tasks(migration)] if way == "in turn" else rounds(migration, way)
        began = time.monotonic()
        for orders in planned:
            if way == "in turn":
                self._carry_in_turn(orders)
            else:
                self._carry(orders)
        taken_s = time.monotonic() - began
        self._check(migration)
        return taken_s

    def _carry(self, orders: Sequence[Order]) -> None:
        for order in orders:
            self._begin(order)
        for _ in orders:
            self._ended()

    def _carry_in_turn(self, orders: Sequence[Order]) -> None:
        waiting, under_way = list(orders), dict[int, Order]()
        while waiting or under_way:
            for order in free_to_begin(waiting, under_way.values()):
                waiting.remove(order)
                under_way[self._begin(order)] = order
            del under_way[self._ended()]

    def _begin(self, order: Order) -> int:
        source, target, pieces = order
        self._number += 1
        self._movers[source].order(self._number, self._movers[target].host.address, pieces)
        return self._number

    def _ended(self) -> int:
        """Wait for an order to be carried out, and return its number."""
        if (number := self._done.get(timeout=_PATIENCE_S)) is None:
            raise ElastreamError("a mover has ended")
        return number

    def _make(self, migration: Migration) -> None:
        for mover in self._movers:
            for file in mover.folder.iterdir():
                file.unlink()
        for move in migration.plan.moves:
            state = os.urandom(int(move.state))
            state_file(self._movers[move.source].folder, move.task).write_bytes(state)

    def _join(self, migration: Migration) -> None:
        """Let every pair that will talk be connected, as in a cluster that has run for a while."""
        for move in migration.plan.moves:
            self._carry([(move.source, move.target, ((move.task, 0, 0),))])

    def _check(self, migration: Migration) -> None:
        for move in migration.plan.moves:
            sent, came = (
                state_file(self._movers[node].folder, move.task)
                for node in (move.source, move.target)
            )
            if not filecmp.cmp(sent, came, shallow=False):
                raise ElastreamError(f"the state of task {move.task} came wrong")


@contextmanager
def movers(nodes: int, bytes_per_s: float) -> Iterator[Movers]:
    """Start movers on this many hosts, whose links carry so much, in and as much out."""
    names = [f"node{number}" for number in range(nodes)]
    with network(names) as net, ExitStack() as stack:
        done: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        started = []
        for name in names:
            net.slow(name, bytes_per_s)
            started.append(_Mover(net[name], done))
            stack.callback(started[-1].end)
        yield Movers(net, started, done)
