"""Which copies of state come from the executors that own it, and when each of them is sent.

Papers 000 (section 5.1) and 001 (section 3): state goes from node to node, and no node sends to two
others at once, or receives from two. The core gives the order; here the next transfer begins as
soon as its owner and its target are free. While one is sent, the owner prepares the next offer.

Whatever goes wrong, state is loaded from storage, as ever.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from elastream.core.ports import CopySource
from elastream.spark.internals.keepers import CopyStatus, OfferStatus, Source
from elastream.spark.internals.spark_internals import ExecutorEntry

_OFFER_S: Final = 15.0
"""How long an offer is awaited; a task may have the store all that time."""
_STALE_S: Final = 3600.0
"""After this time a source that was slower is measured again."""
_FORGET: Final = 0.5
"""What a measurement counts for after the next one."""


@dataclass(slots=True)
class Transfer:
    """One store's state, on its way from the executor that owns it."""

    key: str
    owner: str
    target: str
    state: Literal["queued", "offering", "offered", "sending", "ended"] = "queued"
    name: str = ""
    """Of its offer."""
    asked_s: float = 0.0
    """When the offer was asked for."""
    source: Source | None = None
    """Where its target takes it from, once that is known."""


@dataclass(slots=True)
class Transfers:
    """The transfers of one request for copies, in the order in which they shall begin."""

    all: Sequence[Transfer] = ()
    refused: dict[str, str] = field(default_factory=dict)
    """Why state is loaded from storage instead, by key."""
    _ready: dict[str, Source] = field(default_factory=dict)
    """The offers that are not yet taken, by key."""

    @classmethod
    def between(cls, stores: Iterable[tuple[str, str, str]]) -> Transfers:
        """Return the transfers of stores, each with its key, its owner and its target."""
        return cls([Transfer(key, owner, target) for key, owner, target in stores])

    @property
    def keys(self) -> frozenset[str]:
        """The stores that are to be sent."""
        return frozenset(each.key for each in self.all)

    @property
    def owners(self) -> frozenset[str]:
        """The executors that have something left to send."""
        return frozenset(each.owner for each in self._left())

    def offers(self, executor: str) -> Mapping[str, str]:
        """Return what an executor shall offer: the name of each offer, by key."""
        return {
            each.key: each.name for each in self._left() if each.owner == executor and each.name
        }

    def sources(self, executor: str) -> Mapping[str, Source]:
        """Return where an executor takes its copies from, as far as that is known."""
        mine = (each for each in self.all if each.target == executor)
        return {each.key: each.source for each in mine if each.source is not None}

    def advance(
        self,
        now_s: float,
        alive: Mapping[str, ExecutorEntry],
        offered: Callable[[str], Mapping[str, OfferStatus]],
        copies: Mapping[str, CopyStatus],
    ) -> frozenset[str]:
        """Begin what can be begun, end what has ended; return the executors to be written to."""
        changed: set[str] = set()
        for each in self._left():
            before = each.state
            copy = copies.get(each.key)
            if copy is not None and (copy.version >= 0 or copy.state == "failed" or copy.not_sent):
                if copy.not_sent:
                    self.refused[each.key] = copy.not_sent
                each.state = "ended"
            elif each.owner not in alive:
                self.from_storage(each, f"executor {each.owner} was lost")
            elif each.state == "offering":
                self._take_in_offer(each, offered(each.owner).get(each.key), now_s, alive)
            if each.state != before:
                changed |= {each.owner, each.target}
        return frozenset(changed | self._begin(now_s))

    def from_storage(self, transfer: Transfer, why: str) -> None:
        """Let the target load a store from storage."""
        transfer.state, transfer.source = "ended", ()
        self.refused[transfer.key] = why

    def all_from_storage(self, owner: str, why: str) -> None:
        """Let the targets load from storage what an executor should have sent."""
        for each in self._left():
            if each.owner == owner:
                self.from_storage(each, why)

    def _left(self) -> list[Transfer]:
        return [each for each in self.all if each.state != "ended"]

    def _take_in_offer(
        self,
        transfer: Transfer,
        offer: OfferStatus | None,
        now_s: float,
        alive: Mapping[str, ExecutorEntry],
    ) -> None:
        if offer is not None and offer.name == transfer.name and offer.state == "refused":
            self.from_storage(transfer, offer.why)
        elif offer is not None and offer.name == transfer.name and offer.state == "offered":
            owner = alive[transfer.owner]
            address = (offer.name, owner.host, owner.port, owner.id)
            transfer.state = "offered"
            self._ready[transfer.key] = (*address, offer.version, offer.checkpoint_id)
        elif now_s - transfer.asked_s > _OFFER_S:
            self.from_storage(transfer, f"executor {transfer.owner} offered nothing")

    def _begin(self, now_s: float) -> set[str]:
        """Send what is offered and ask for the next offers, where owner and target are free."""
        changed: set[str] = set()
        stages: tuple[tuple[str, tuple[str, ...]], ...] = (
            ("offered", ("sending",)),
            ("queued", ("offering", "offered")),
        )
        for waiting, occupying in stages:
            left = self._left()
            owners = {each.owner for each in left if each.state in occupying}
            targets = {each.target for each in left if each.state in occupying}
            for each in left:
                if each.state != waiting or each.owner in owners or each.target in targets:
                    continue
                owners.add(each.owner)
                targets.add(each.target)
                if waiting == "offered":
                    each.state, each.source = "sending", self._ready.pop(each.key)
                    changed.add(each.target)
                else:
                    each.state, each.name = "offering", f"elastream_{uuid.uuid4()}"
                    each.asked_s = now_s
                    changed.add(each.owner)
        return changed


@dataclass(slots=True)
class _Rate:
    """How quickly one source gave state, the last measurements counting most."""

    bytes: float = 0.0
    seconds: float = 0.0
    at_s: float | None = None
    """When it was measured last."""

    def take_in(self, size: int, seconds: float, now_s: float) -> None:
        self.bytes = _FORGET * self.bytes + size
        self.seconds = _FORGET * self.seconds + seconds
        self.at_s = now_s

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / max(self.seconds, 1e-3)

    def is_known(self, now_s: float) -> bool:
        return self.at_s is not None and now_s - self.at_s < _STALE_S


class SourceRates:
    """How quickly storage and executors have given state, opening it included."""

    def __init__(self) -> None:
        self._storage, self._executors = _Rate(), _Rate()

    def take_in(self, copy: CopyStatus, now_s: float) -> None:
        """Take in what became of a copy."""
        seconds = copy.took_ms / 1000
        if copy.version >= 0 and copy.sent:
            self._executors.take_in(copy.sent, seconds, now_s)
        elif copy.version >= 0 and copy.bytes:
            self._storage.take_in(copy.bytes, seconds, now_s)

    def from_executors(self, stores: Sequence[str], source: CopySource, now_s: float) -> list[str]:
        """Return which of these stores shall come from executors.

        All from the source that was faster. Where the other is not known, or was measured long
        ago, the last of several stores comes from that one. Executors are tried first.
        """
        if source != "faster":
            return list(stores) if source == "executor" else []
        storage, executors = self._storage, self._executors
        slower = storage.at_s is not None and executors.at_s is not None
        slower = slower and executors.bytes_per_s < storage.bytes_per_s
        if slower:
            return [] if executors.is_known(now_s) else list(stores[-1:])
        tried = executors.at_s is not None and not storage.is_known(now_s) and len(stores) > 1
        return list(stores[:-1] if tried else stores)

    def described(self) -> str:
        """Return both rates in words; empty where neither is known."""
        rates = (("executors", self._executors), ("storage", self._storage))
        known = [
            f"{name} gave {rate.bytes_per_s / 1e6:.0f} MB/s"
            for name, rate in rates
            if rate.at_s is not None
        ]
        return ", ".join(known)
