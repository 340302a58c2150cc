"""Copies of state on the executors that it will come to, so that the batch of a move loads nothing.

The papers' live migration (000, section 5.2) lets tasks go on while state travels. Spark loads the
state of a moved task inside the batch that moves it. Here a copy travels before: the keeper of the
target (:mod:`elastream.spark.internals.keepers`) opens the store a second time, follows every batch
that commits, and hands its provider to Spark between two batches. What was not taken over, or is
too old, is loaded as ever, so no result can be wrong.

A copy comes from the storage of the checkpoint or, where the policy says so, from the executor that
owns the state (:mod:`elastream.spark.steer.transfers`).

What is wanted of an executor is written as a whole whenever it changes; its keeper does what is
missing. A copy counts as there only while its keeper answers and lists it. An order that got lost
is delivered again; copies that were there and are lost are reported to the core.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

from elastream.core.events import BatchObserved, CopiesLost, Fact, QueryLeft, Status
from elastream.core.ports import Copied, CopySource, Ticket
from elastream.model.errors import SparkError
from elastream.model.observation import TaskId
from elastream.spark.internals.keepers import CopyStatus, KeeperCommand, Keepers
from elastream.spark.internals.spark_internals import ExecutorEntry, SparkInternals
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.observe.own_work import marked
from elastream.spark.steer.copied_queries import CopiedQueries, run_of
from elastream.spark.steer.keeper_answers import KeeperAnswers
from elastream.spark.steer.slots import SlotLaw
from elastream.spark.steer.source_rates import SourceRates
from elastream.spark.steer.transfers import Scene, Transfers
from elastream.spark.steer.wishes import Wish, copied, failed, is_lost, is_there

_POLL_S: Final = 0.2
_SENDING_POLL_S: Final = 0.05
"""How often keepers are read while state goes from executor to executor."""
_COUNT_S: Final = 1.0
"""How often executors are counted and keepers asked to report while copies are awaited."""
_ORDERS: Final = 4
"""How often copies are ordered of an executor before it counts as one where they do not come."""
_TAKE_S: Final = 1.0
"""How long a place waits for a copy to be taken over; then its task loads its state itself."""
_TAKE_POLL_S: Final = 0.01
_DELIVERIES: Final = 3
"""How often a task is sent to an executor before it counts as one that cannot be reached."""
_ENDED: Final = ("taken", "held", "failed")
"""The keeper has such a copy no more, so that it takes a new order for it."""


class SparkStateCopies:
    """Brings copies of tasks' state to executors, and lets these take them over."""

    def __init__(
        self,
        internals: SparkInternals,
        monitor: SparkMonitor,
        lost: Callable[[CopiesLost], None] = lambda _: None,
        slots: SlotLaw | None = None,
    ) -> None:
        self._internals = internals
        self._slots = slots or SlotLaw(internals, monitor)
        self._monitor = monitor
        self._lost = lost
        self._clock = time.monotonic
        self._keepers = Keepers(internals)
        self._lock = threading.RLock()
        self._wishes: dict[str, Wish] = {}
        self._answers = KeeperAnswers(self._keepers, lambda: self._clock())
        self._there: dict[str, dict[str, TaskId]] = {}
        """The copies that were there when they were last awaited, by executor and key."""
        self._soon = False
        self._queries = CopiedQueries(internals, monitor)
        self._missing: str | None = self._keepers.missing_name()
        self._not_sent: str | None = self._keepers.why_not_sent()
        self._rates = SourceRates()
        self._transfers = Transfers()

    def copy(
        self,
        wanted: Mapping[TaskId, str],
        *,
        soon: bool,
        source: CopySource = "storage",
        ticket: Ticket,
    ) -> Copied:
        """Bring copies of these tasks' state to these executors, and drop all others.

        Returns when each is there or known not to come. Keepers look for news more often where
        they will be taken over ``soon``.
        """
        if self._missing is not None:
            return Copied(why=f"this Spark lacks {self._missing}")
        alive = self._alive()
        stores, refused = self._queries.stores({t: e for t, e in wanted.items() if e in alive})
        wishes = {name: Wish(its) for name, its in stores.items()}
        with self._lock:
            before, self._wishes = self._wishes, wishes
            there, self._there = self._there, {}
            self._soon = soon
            ended = self._ended(before)
            known = {name: wish.stores.keys() - ended for name, wish in before.items()}
            new = {
                name: [key for key in wish.stores if key not in known.get(name, set())]
                for name, wish in wishes.items()
            }
            self._transfers = self._sent(wishes, new, tuple(wanted), source, alive)
            self._write(before.keys() | wishes.keys())
        try:
            for name, wish in wishes.items():
                ticket.check()
                self._slots.require("no copies", ticket, more=1)
                self._deliver(alive[name], wish, new[name])
            self._open_owners(wishes, alive, ticket)
            found = self._await(wishes, ticket)
        except BaseException:
            self._keep_only(known, there)
            raise
        finally:
            transfers = self._end_transfers()
        with self._lock:
            self._there = {
                name: {key: task for key, (task, _) in wish.stores.items() if is_there(found, key)}
                for name, wish in self._wishes.items()
                if name in wishes
            }
            new_keys = {key for keys in new.values() for key in keys}
            for key in new_keys & found.keys():
                self._rates.take_in(found[key], self._clock())
        result = copied(wishes, refused, found, new_keys, self._choice(transfers, source))
        return replace(result, link_bytes_per_s=transfers.links(found))

    def take(self, wanted: Mapping[TaskId, str]) -> frozenset[TaskId]:
        """Let executors take over the copies that they have of these tasks; return whose they did.

        Where one does not answer at once, its task loads its state in its batch.
        """
        with self._lock:
            asked = {name: self._takeable(name, wanted) for name in self._wishes}
            asked = {name: keys for name, keys in asked.items() if keys}
            if not asked:
                return frozenset()
            self._give(asked)
            stores = [
                (name, *self._wishes[name].stores[key])
                for name, keys in asked.items()
                for key in keys
            ]
        left, deadline = stores, time.monotonic() + _TAKE_S
        while left and time.monotonic() < deadline:
            time.sleep(_TAKE_POLL_S)
            left = [each for each in left if self._internals.location(each[2].id) != each[0]]
        with self._lock:
            self._give(dict.fromkeys(asked, frozenset()))
        return frozenset(task for _, task, _ in stores) - {task for _, task, _ in left}

    def drop(self) -> None:
        """Drop every copy that was not taken over."""
        with self._lock:
            names, self._wishes, self._there = tuple(self._wishes), {}, {}
            self._write(names)
            self._queries.rest()

    def take_in(self, fact: Fact) -> None:
        """Pass every batch that committed on to the keepers, and renew their lease now and then.

        Copies that were there and are lost are reported.
        """
        lost: CopiesLost | None = None
        try:
            with self._lock:
                match fact:
                    case BatchObserved(batch=batch) if self._queries.take_in(
                        batch.run, batch.batch
                    ):
                        pass
                    case QueryLeft(run=run):
                        self._queries.forget(run)
                    case Status(at_ms=at_ms):
                        lost = CopiesLost(at_ms, self._give_up_lost())
                    case _:
                        return
                self._write(self._wishes)
        finally:
            if lost is not None and lost.copies:
                self._lost(lost)

    def close(self) -> None:
        """Drop everything, for good."""
        with self._lock:
            self._wishes.clear()
            self._there.clear()
            self._keepers.close()

    def _sent(
        self,
        wishes: Mapping[str, Wish],
        new: Mapping[str, list[str]],
        order: Sequence[TaskId],
        source: CopySource,
        alive: Mapping[str, ExecutorEntry],
    ) -> Transfers:
        """Return the transfers of the new copies that shall come from executors."""
        if self._not_sent is not None or source == "storage":
            return Transfers()
        stores = {
            key: (key, owner, name)
            for name, keys in new.items()
            for key in keys
            if (owner := self._internals.location(wishes[name].stores[key][1].id)) is not None
            and owner in alive
            and owner != name
            and not self._queries.holds_stores(key)
        }
        ranks = {task: rank for rank, task in enumerate(order)}
        ordered = sorted(stores, key=lambda key: ranks[wishes[stores[key][2]].stores[key][0]])
        chosen = self._rates.from_executors(ordered, source, self._clock())
        return Transfers.between(stores[key] for key in chosen)

    def _open_owners(
        self, wishes: Mapping[str, Wish], alive: Mapping[str, ExecutorEntry], ticket: Ticket
    ) -> None:
        """See to it that the executors that shall send state have a keeper."""
        for name in sorted(self._transfers.owners - wishes.keys()):
            ticket.check()
            try:
                self._slots.require("no offers", ticket, more=1)
                with self._lock:
                    self._write([name])
                self._send_orders(alive[name], [])
                self._ordered(name)
            except SparkError as error:
                with self._lock:
                    self._transfers.all_from_storage(name, str(error))
                    self._write(wishes)

    def _end_transfers(self) -> Transfers:
        """Let the owners take back what they offered; return what was sent."""
        with self._lock:
            transfers, self._transfers = self._transfers, Transfers()
            self._rates.take_in_losses(transfers.lost_s, self._clock())
            self._write({name for each in transfers.all for name in (each.owner, each.target)})
        return transfers

    def _choice(self, transfers: Transfers, source: CopySource) -> str:
        """Return in words why copies came from where they came from."""
        for why in transfers.refused.values():
            return f"{len(transfers.refused)} not from its executor: {why}"
        if source == "faster" and self._not_sent is None:
            return self._rates.described()
        return ""

    def _alive(self) -> dict[str, ExecutorEntry]:
        return {executor.id: executor for executor in self._internals.executors()}

    def _keep_only(
        self, known: Mapping[str, Set[str]], there: dict[str, dict[str, TaskId]]
    ) -> None:
        with self._lock:
            self._there = there
            names = tuple(self._wishes)
            for name, wish in self._wishes.items():
                old = known.get(name, set())
                wish.stores = {key: of for key, of in wish.stores.items() if key in old}
            self._wishes = {name: wish for name, wish in self._wishes.items() if wish.stores}
            self._write(names)

    def _deliver(
        self, executor: ExecutorEntry, wish: Wish, keys: Iterable[str], times: int = 1
    ) -> None:
        found = [self._queries.order(key, wish.stores[key][1]) for key in keys]
        orders = [order for order in found if order is not None]
        if orders:
            self._send_orders(executor, orders)
        self._ordered(executor.id, times)

    def _send_orders(self, executor: ExecutorEntry, orders: Sequence[Sequence[object]]) -> None:
        why = ""
        for _ in range(_DELIVERIES):
            with marked(self._internals.spark):
                why = self._keepers.deliver(executor, orders)
            if not why:
                return
        raise SparkError(f"executor {executor.id} takes no orders: {why}")

    def _ordered(self, executor: str, times: int = 1) -> None:
        """Write a message that the keeper answers as one that has all its orders."""
        with self._lock:
            self._answers.ordered(executor, times)
            self._write([executor])

    def _await(self, wishes: Mapping[str, Wish], ticket: Ticket) -> dict[str, CopyStatus]:
        """Wait until every copy is there or known not to come; return what became of each."""
        alive, counted_s = self._alive(), self._clock()
        known: dict[str, CopyStatus] = {}
        """Those that do not come, and that the keeper does not report as failed."""
        while True:
            if is_due := self._clock() - counted_s > _COUNT_S:
                alive, counted_s = self._alive(), self._clock()
            found, pending = dict(known), False
            for name, wish in wishes.items():
                listed = self._answers.copies(name)
                found |= {
                    key: status
                    for key, status in (listed or {}).items()
                    if key in wish.stores and key not in known
                }
                waiting = self._waiting(wish, found)
                if name not in alive or not waiting:
                    continue
                pending = True
                lost = waiting - (listed or {}).keys()
                if lost and (listed is not None or self._answers.is_silent(name)):
                    known |= self._order_again(alive[name], wish, lost, ticket)
                elif is_due:
                    with self._lock:
                        self._write([name])
            if not pending:
                return found | self._left(wishes)
            sends = self._advance_transfers(alive, found, is_due=is_due)
            ticket.wait(_SENDING_POLL_S if sends else _POLL_S)

    def _advance_transfers(
        self, alive: Mapping[str, ExecutorEntry], found: Mapping[str, CopyStatus], *, is_due: bool
    ) -> bool:
        """Go on with what goes from executor to executor; return whether anything does."""
        with self._lock:
            transfers = self._transfers
            stores = {key: of for wish in self._wishes.values() for key, of in wish.stores.items()}
            scene = Scene(
                self._clock(),
                alive,
                self._queries.committed.keys(),
                self._answers.offers,
                lambda key: self._internals.location(stores[key][1].id) if key in stores else None,
                found,
            )
            changed = transfers.advance(scene)
            owners = transfers.owners
            self._write(changed | (owners if is_due else frozenset()))
        return bool(owners)

    def _left(self, wishes: Mapping[str, Wish]) -> dict[str, CopyStatus]:
        keys = {key for wish in wishes.values() for key in wish.stores}
        runs = self._queries.committed.keys()
        left = {key for key in keys if run_of(key) not in runs}
        return dict.fromkeys(left, failed("its query has ended"))

    def _waiting(self, wish: Wish, found: Mapping[str, CopyStatus]) -> set[str]:
        """Return the copies that may come yet: not those of a query that has left."""
        runs = self._queries.committed.keys()
        done = {key for key, copy in found.items() if copy.state not in ("waiting", "opening")}
        return {key for key in wish.stores if run_of(key) in runs and key not in done}

    def _order_again(
        self, executor: ExecutorEntry, wish: Wish, keys: Set[str], ticket: Ticket
    ) -> dict[str, CopyStatus]:
        """Deliver orders that got lost again; return those that are given up instead."""
        ticket.check()
        orders = self._answers.orders(executor.id)
        why = f"executor {executor.id} took its order {orders} times and does not report on it"
        if orders < _ORDERS:
            try:
                self._deliver(executor, wish, keys, orders + 1)
            except SparkError as error:
                why = str(error)
            else:
                return {}
        return {key: failed(why) for key in keys}

    def _give_up_lost(self) -> dict[TaskId, str]:
        """Drop the wish for copies that were there and are lost; return their tasks and executors.

        A keeper that is only held up answers within its lease, and has its copies until then.
        """
        lost: dict[TaskId, str] = {}
        reports = {name: self._answers.copies(name) for name in self._there}
        runs = self._queries.committed.keys()
        for name, there in self._there.items():
            wish, listed = self._wishes.get(name), reports[name]
            ended = self._answers.is_silent(name, self._keepers.lease_s)
            if wish is None or (listed is None and not ended):
                continue
            gone = {
                task
                for key, task in there.items()
                if key in wish.stores and run_of(key) in runs and is_lost(listed, key)
            }
            lost |= dict.fromkeys(gone, name)
            self._there[name] = {key: task for key, task in there.items() if task not in gone}
            wish.stores = {key: of for key, of in wish.stores.items() if of[0] not in gone}
        return lost

    def _ended(self, wishes: Mapping[str, Wish]) -> set[str]:
        return {
            key
            for name, wish in wishes.items()
            if (report := self._keepers.read(name)) is not None
            for key, copy in report.copies.items()
            if key in wish.stores and copy.state in _ENDED
        }

    def _takeable(self, executor: str, wanted: Mapping[TaskId, str]) -> frozenset[str]:
        """Return the keys of the copies there of tasks that shall go there and are whole."""
        stores, listed = self._wishes[executor].stores, self._answers.copies(executor) or {}
        ready = {key for key, status in listed.items() if status.state == "ready"}
        partly = {task for key, (task, _) in stores.items() if key not in ready}
        return frozenset(
            key
            for key, (task, _) in stores.items()
            if wanted.get(task) == executor and task not in partly
        )

    def _give(self, asked: Mapping[str, frozenset[str]]) -> None:
        """Write what executors shall take over now; what they have taken is theirs."""
        for name, keys in asked.items():
            wish = self._wishes.get(name)
            if wish is not None:
                given = wish.take - keys
                wish.stores = {key: of for key, of in wish.stores.items() if key not in given}
                wish.take = keys
        self._write(asked)

    def _write(self, names: Iterable[str]) -> None:
        committed = self._queries.committed
        for name in names:
            wish = self._wishes.get(name, Wish())
            keep, take = sorted(wish.stores), sorted(wish.take)
            sources, offers = self._transfers.sources(name), self._transfers.offers(name)
            alert = bool(offers) or (self._soon and bool(keep))
            command = KeeperCommand(keep, take, committed, alert, sources, offers)
            self._keepers.write(name, command)
            self._answers.written(name)
