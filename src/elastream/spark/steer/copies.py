"""Copies of state on the executors that it will come to, so that the batch of a move loads nothing.

The papers' live migration (000, section 5.2) lets tasks go on while state travels. Spark loads the
state of a moved task inside the batch that moves it. Here a copy travels before: the keeper of the
target (:mod:`elastream.spark.internals.keepers`) opens the store a second time, follows every batch
that commits, and hands its provider to Spark between two batches. What was not taken over, or is
too old, is loaded as ever, so no result can be wrong.

A copy comes from the storage of the checkpoint or, where the policy says so, from the executor that
owns the state (:mod:`elastream.spark.steer.transfers`).

What is wanted of an executor is written as a whole whenever it changes; its keeper does what is
missing. A keeper may end: it receives nothing for a minute, or fails. So a copy counts as there
only while its keeper answers and lists it. An order that got lost is delivered again; copies that
were there and are lost are reported to the core.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from elastream.core.events import BatchObserved, CopiesLost, Fact, QueryLeft, Status
from elastream.core.ports import Copied, CopySource, Ticket
from elastream.model.errors import QueryRefusedError, SparkError
from elastream.model.observation import TaskId
from elastream.spark.internals.copy_orders import OrderBook, copy_orders
from elastream.spark.internals.keepers import (
    CopyStatus,
    KeeperCommand,
    KeeperReport,
    Keepers,
    OfferStatus,
)
from elastream.spark.internals.spark_internals import ExecutorEntry, SparkInternals
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.observe.own_work import marked
from elastream.spark.observe.watched_query import StoreOfTask, WatchedQuery
from elastream.spark.steer.slots import SlotLaw
from elastream.spark.steer.transfers import SourceRates, Transfers

_POLL_S: Final = 0.2
_SENDING_POLL_S: Final = 0.05
"""How often keepers are read while state goes from executor to executor."""
_COUNT_S: Final = 1.0
"""How often executors are counted and keepers asked to report while copies are awaited."""
_SILENT_S: Final = 15.0
"""A keeper that has not answered a message after this time is gone."""
_ORDERS: Final = 4
"""How often copies are ordered of an executor before it counts as one where they do not come."""
_TAKE_S: Final = 1.0
"""How long a place waits for a copy to be taken over; then its task loads its state itself."""
_TAKE_POLL_S: Final = 0.01
_DELIVERIES: Final = 3
"""How often a task is sent to an executor before it counts as one that cannot be reached."""
_THERE: Final = ("ready", "taken", "held")
_ENDED: Final = ("taken", "held", "failed")
"""The keeper has such a copy no more, so that it takes a new order for it."""


@dataclass(slots=True)
class _Wish:
    stores: dict[str, tuple[TaskId, StoreOfTask]] = field(default_factory=dict)
    """The stores that it shall have copies of, by key."""
    take: frozenset[str] = frozenset()
    """Keys of those that it shall take over now."""


@dataclass(slots=True)
class _Answers:
    """What one executor's keeper has answered since copies were ordered of it."""

    first: int
    """The first message written after its orders were delivered; earlier reports do not count."""
    orders: int
    last: int = -1
    """The message that was answered last."""
    unanswered_s: float | None = None
    """When the first message after that was written."""

    def listed(self, report: KeeperReport | None, now_s: float) -> Mapping[str, CopyStatus] | None:
        """Return what the keeper has; ``None`` where that is not known."""
        if report is not None and report.number > self.last:
            self.last, self.unanswered_s = report.number, None
        if report is None or report.number < self.first or self.is_silent(now_s):
            return None
        return report.copies

    def is_silent(self, now_s: float, limit_s: float = _SILENT_S) -> bool:
        """Whether there is no keeper: a living one answers every message."""
        return self.unanswered_s is not None and now_s - self.unanswered_s > limit_s


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
        self._wishes: dict[str, _Wish] = {}
        self._answers: dict[str, _Answers] = {}
        self._there: dict[str, dict[str, TaskId]] = {}
        """The copies that were there when they were last awaited, by executor and key."""
        self._soon = False
        self._committed: dict[str, int] = {}
        """The last committed batch of each run that has copies."""
        self._books: dict[str, OrderBook] = {}
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
        wishes, refused = self._wanted({t: e for t, e in wanted.items() if e in alive})
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
                self._delivered(name)
            self._open_owners(wishes, alive, ticket)
            found = self._await(wishes, ticket)
        except BaseException:
            self._keep_only(known, there)
            raise
        finally:
            self._end_transfers()
        with self._lock:
            self._there = {
                name: {key: task for key, (task, _) in wish.stores.items() if _is_there(found, key)}
                for name, wish in self._wishes.items()
                if name in wishes
            }
            new_keys = {key for keys in new.values() for key in keys}
            for key in new_keys & found.keys():
                self._rates.take_in(found[key], self._clock())
        return _copied(wishes, refused, found, new_keys, self._choice(new_keys, source))

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
            self._committed.clear()

    def take_in(self, fact: Fact) -> None:
        """Pass every batch that committed on to the keepers, and renew their lease now and then.

        Copies that were there and are lost are reported.
        """
        lost: CopiesLost | None = None
        try:
            with self._lock:
                match fact:
                    case BatchObserved(batch=batch) if batch.run in self._committed:
                        self._committed[batch.run] = batch.batch
                    case QueryLeft(run=run):
                        self._forget(run)
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
        wishes: Mapping[str, _Wish],
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
        }
        ranks = {task: rank for rank, task in enumerate(order)}
        ordered = sorted(stores, key=lambda key: ranks[wishes[stores[key][2]].stores[key][0]])
        chosen = self._rates.from_executors(ordered, source, self._clock())
        return Transfers.between(stores[key] for key in chosen)

    def _open_owners(
        self, wishes: Mapping[str, _Wish], alive: Mapping[str, ExecutorEntry], ticket: Ticket
    ) -> None:
        """See to it that the executors that shall send state have a keeper."""
        for name in sorted(self._transfers.owners - wishes.keys()):
            ticket.check()
            self._slots.require("no copies", ticket, more=1)
            with self._lock:
                self._write([name])
            try:
                self._send_orders(alive[name], [])
            except SparkError as error:
                self._transfers.all_from_storage(name, str(error))
                with self._lock:
                    self._write(wishes)
            else:
                self._delivered(name)

    def _end_transfers(self) -> None:
        """Let the owners take back what they offered."""
        with self._lock:
            involved = {each.owner for each in self._transfers.all}
            involved |= {each.target for each in self._transfers.all}
            self._transfers = Transfers(refused=self._transfers.refused)
            self._write(involved)

    def _choice(self, keys: Set[str], source: CopySource) -> str:
        """Return in words why copies came from where they came from."""
        refused = [why for key, why in self._transfers.refused.items() if key in keys]
        if refused:
            return f"{len(refused)} not from its executor: {refused[0]}"
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

    def _wanted(self, wanted: Mapping[TaskId, str]) -> tuple[dict[str, _Wish], dict[TaskId, str]]:
        """Return what that asks of each executor, and why some tasks cannot be copied."""
        wishes: dict[str, _Wish] = {}
        refused: dict[TaskId, str] = {}
        queries: dict[str, tuple[WatchedQuery, OrderBook]] = {}
        for task, executor in wanted.items():
            if task.query not in queries:
                queries[task.query] = self._query(task.query)
            watched, book = queries[task.query]
            stores = watched.stores(task)
            whys = [book.refused[each.operator] for each in stores if each.operator in book.refused]
            if whys:
                refused[task] = whys[0]
                continue
            wish, run = wishes.setdefault(executor, _Wish()), watched.query.run_id
            wish.stores.update({_key(run, store): (task, store) for store in stores})
        return wishes, refused

    def _query(self, name: str) -> tuple[WatchedQuery, OrderBook]:
        """Return a query whose last batch is known, and its orders.

        It may leave meanwhile, in the monitor's thread: then nothing of it is kept.
        """
        watched = self._monitor.named(name)
        if watched is None:
            raise QueryRefusedError(f"query {name} does not take part")
        run = watched.query.run_id
        with self._lock:
            book = self._books.get(run)
        book = book or copy_orders(self._internals, watched.query)
        batch = self._internals.queries.committed_batch(watched.query)
        if batch is None:
            raise SparkError(f"query {name} has committed no batch")
        with self._lock:
            self._books[run] = book
            self._committed[run] = max(batch, self._committed.get(run, batch))
        if self._monitor.named(name) is not watched:
            self._forget(run)
            raise QueryRefusedError(f"query {name} has ended")
        return watched, book

    def _forget(self, run: str) -> None:
        with self._lock:
            self._committed.pop(run, None)
            self._books.pop(run, None)

    def _deliver(self, executor: ExecutorEntry, wish: _Wish, keys: Iterable[str]) -> None:
        orders = []
        with self._lock:
            for key in keys:
                _, store = wish.stores[key]
                book = self._books.get(_run(key))
                if book is not None:  # else the query has left meanwhile
                    order = book.orders[store.operator, store.name]
                    orders.append([key, store.id, *order, key in self._transfers.keys])
        if orders:
            self._send_orders(executor, orders)

    def _send_orders(self, executor: ExecutorEntry, orders: Sequence[Sequence[object]]) -> None:
        why = ""
        for _ in range(_DELIVERIES):
            with marked(self._internals.spark):
                why = self._keepers.deliver(executor, orders)
            if not why:
                return
        raise SparkError(f"executor {executor.id} takes no orders: {why}")

    def _delivered(self, executor: str, orders: int = 1) -> None:
        """Write a message that the keeper answers as one that has all its orders."""
        with self._lock:
            self._answers[executor] = _Answers(self._keepers.number + 1, orders)
            self._write([executor])

    def _await(self, wishes: Mapping[str, _Wish], ticket: Ticket) -> dict[str, CopyStatus]:
        """Wait until every copy is there or known not to come; return what became of each."""
        alive, counted_s = self._alive(), self._clock()
        known: dict[str, CopyStatus] = {}
        """Those that do not come, and that the keeper does not report as failed."""
        while True:
            if is_due := self._clock() - counted_s > _COUNT_S:
                alive, counted_s = self._alive(), self._clock()
            found, pending = dict(known), False
            for name, wish in wishes.items():
                listed = self._listed(name)
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
                if lost and (listed is not None or self._is_silent(name)):
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
            changed = transfers.advance(self._clock(), alive, self._offered, found)
            owners = transfers.owners
            self._write(changed | (owners if is_due else frozenset()))
        return bool(owners)

    def _offered(self, executor: str) -> Mapping[str, OfferStatus]:
        """Return what an executor offers; nothing where it has no keeper."""
        report = self._keepers.read(executor)
        answers = self._answers.get(executor)
        if report is None or answers is None or answers.listed(report, self._clock()) is None:
            return {}
        return report.offers

    def _left(self, wishes: Mapping[str, _Wish]) -> dict[str, CopyStatus]:
        keys = {key for wish in wishes.values() for key in wish.stores}
        with self._lock:
            left = {key for key in keys if _run(key) not in self._committed}
        return dict.fromkeys(left, _failed("its query has ended"))

    def _waiting(self, wish: _Wish, found: Mapping[str, CopyStatus]) -> set[str]:
        """Return the copies that may come yet: not those of a query that has left."""
        with self._lock:
            runs = set(self._committed)
        done = {key for key, copy in found.items() if copy.state not in ("waiting", "opening")}
        return {key for key in wish.stores if _run(key) in runs and key not in done}

    def _order_again(
        self, executor: ExecutorEntry, wish: _Wish, keys: Set[str], ticket: Ticket
    ) -> dict[str, CopyStatus]:
        """Deliver orders that got lost again; return those that are given up instead."""
        ticket.check()
        orders = self._answers[executor.id].orders
        why = f"executor {executor.id} took its order {orders} times and does not report on it"
        if orders < _ORDERS:
            try:
                self._deliver(executor, wish, keys)
            except SparkError as error:
                why = str(error)
            else:
                self._delivered(executor.id, orders + 1)
                return {}
        return {key: _failed(why) for key in keys}

    def _listed(self, executor: str) -> Mapping[str, CopyStatus] | None:
        """Return what an executor's keeper has; ``None`` where that is not known."""
        report = self._keepers.read(executor)
        with self._lock:
            answers = self._answers.get(executor)
            return None if answers is None else answers.listed(report, self._clock())

    def _is_silent(self, executor: str, limit_s: float = _SILENT_S) -> bool:
        return self._answers[executor].is_silent(self._clock(), limit_s)

    def _give_up_lost(self) -> dict[TaskId, str]:
        """Drop the wish for copies that were there and are lost; return their tasks and executors.

        A keeper that is only held up answers within its lease, and has its copies until then.
        """
        lost: dict[TaskId, str] = {}
        reports = {name: self._listed(name) for name in self._there}
        for name, there in self._there.items():
            wish, listed = self._wishes.get(name), reports[name]
            ended = self._is_silent(name, self._keepers.lease_s)
            if wish is None or (listed is None and not ended):
                continue
            gone = {
                task
                for key, task in there.items()
                if key in wish.stores and _run(key) in self._committed and _is_lost(listed, key)
            }
            lost |= dict.fromkeys(gone, name)
            self._there[name] = {key: task for key, task in there.items() if task not in gone}
            wish.stores = {key: of for key, of in wish.stores.items() if of[0] not in gone}
        return lost

    def _ended(self, wishes: Mapping[str, _Wish]) -> set[str]:
        return {
            key
            for name, wish in wishes.items()
            if (report := self._keepers.read(name)) is not None
            for key, copy in report.copies.items()
            if key in wish.stores and copy.state in _ENDED
        }

    def _takeable(self, executor: str, wanted: Mapping[TaskId, str]) -> frozenset[str]:
        """Return the keys of the copies there of tasks that shall go there and are whole."""
        stores, listed = self._wishes[executor].stores, self._listed(executor) or {}
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
        for name in names:
            wish = self._wishes.get(name, _Wish())
            keep, take = sorted(wish.stores), sorted(wish.take)
            sources, offers = self._transfers.sources(name), self._transfers.offers(name)
            alert = bool(offers) or (self._soon and bool(keep))
            command = KeeperCommand(keep, take, self._committed, alert, sources, offers)
            self._keepers.write(name, command)
            answers = self._answers.get(name)
            if answers is not None and answers.unanswered_s is None:
                answers.unanswered_s = self._clock()


def _key(run: str, store: StoreOfTask) -> str:
    return f"{run}/{store.operator}/{store.partition}/{store.name}"


def _run(key: str) -> str:
    return key.partition("/")[0]


def _failed(why: str) -> CopyStatus:
    return CopyStatus("failed", -1, 0, 0, 0, why, "")


def _is_there(found: Mapping[str, CopyStatus], key: str) -> bool:
    return key in found and found[key].state in _THERE


def _is_lost(listed: Mapping[str, CopyStatus] | None, key: str) -> bool:
    return listed is None or key not in listed or listed[key].state == "failed"


def _copied(
    wishes: Mapping[str, _Wish],
    refused: Mapping[TaskId, str],
    found: Mapping[str, CopyStatus],
    new: Set[str],
    choice: str,
) -> Copied:
    whole: dict[TaskId, bool] = dict.fromkeys(refused, False)
    whys = list(refused.values())
    for wish in wishes.values():
        for key, (task, _) in wish.stores.items():
            status = found.get(key)
            there = _is_there(found, key)
            whole[task] = whole.get(task, True) and there
            if not there:
                whys.append("its executor was lost" if status is None else status.why)
    tasks = frozenset(task for task, there in whole.items() if there)
    loaded = [found[key] for key in new & found.keys()]
    return Copied(
        tasks,
        sum(status.bytes for status in loaded),
        sum(status.sent for status in loaded),
        whys[0] if whys else None,
        choice,
    )
