"""Which copies of state come from the executors that own it, and when each of them is sent.

Papers 000 (section 5.1) and 001 (section 3): state goes from node to node, and no node sends to two
others at once, or receives from two. The core gives the order; here the next transfer begins as
soon as its owner and its target are free. While one is sent, the owner prepares the next offer.

Whatever goes wrong, state is loaded from storage, as ever.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, Literal

from elastream.spark.internals.keepers import CopyStatus, OfferStatus, Source
from elastream.spark.internals.spark_internals import ExecutorEntry
from elastream.spark.steer.copied_queries import run_of

_MUCH_BYTES: Final = 1 << 20
"""What has to be sent to say how much a link carries."""
_OFFER_S: Final = 15.0
"""How long an offer is awaited; a task may have the store all that time."""


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


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known when transfers go on."""

    now_s: float
    alive: Mapping[str, ExecutorEntry]
    runs: Set[str]
    """The runs of the queries that go on."""
    offered: Callable[[str], Mapping[str, OfferStatus]]
    """What an executor offers, by key."""
    location: Callable[[str], str | None]
    """Which executor Spark knows to have a store, by key."""
    copies: Mapping[str, CopyStatus]


@dataclass(slots=True)
class Transfers:
    """The transfers of one request for copies, in the order in which they shall begin."""

    all: Sequence[Transfer] = ()
    refused: dict[str, str] = field(default_factory=dict)
    """Why state is loaded from storage instead, by key."""
    lost_s: float = 0.0
    """How long was waited for what never came."""
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

    def sources(self, executor: str) -> Mapping[str, Source | None]:
        """Return where an executor takes its copies from; ``None`` where that is not known yet."""
        mine = [each for each in self.all if each.target == executor]
        return {each.key: each.source for each in mine if each.source or each.state != "ended"}

    def links(self, copies: Mapping[str, CopyStatus]) -> Mapping[str, float]:
        """Return how many bytes a second each executor was seen to send or receive, at best."""
        found: dict[str, float] = {}
        for each in self.all:
            copy = copies.get(each.key)
            if copy is not None and copy.sent >= _MUCH_BYTES:
                pace = copy.sent / max(copy.took_ms / 1000, 1e-3)
                for end in (each.owner, each.target):
                    found[end] = max(pace, found.get(end, 0.0))
        return found

    def advance(self, scene: Scene) -> frozenset[str]:
        """Begin what can be begun, end what has ended; return the executors to be written to."""
        changed: set[str] = set()
        for each in self._left():
            before = each.state
            if before == "ended":  # since its owner was given up, a moment ago
                continue
            copy = scene.copies.get(each.key)
            if each.target not in scene.alive or run_of(each.key) not in scene.runs:
                each.state, each.source = "ended", None
            elif copy is not None and copy.not_sent:
                self._give_up(each, copy.not_sent, scene.now_s)
            elif copy is not None and (copy.version >= 0 or copy.state == "failed"):
                each.state = "ended"
            elif each.owner not in scene.alive:
                self._from_storage(each, f"executor {each.owner} was lost")
            elif each.state == "offering":
                self._take_in_offer(each, scene)
            if each.state != before:
                changed |= {each.owner, each.target}
                changed |= {other.target for other in self.all if other.owner == each.owner}
        return frozenset(changed | self._begin(scene.now_s))

    def all_from_storage(self, owner: str, why: str) -> None:
        """Let the targets load from storage what an executor has yet to send."""
        for each in self._left():
            if each.owner == owner and each.state != "sending":
                self._from_storage(each, why)

    def _from_storage(self, transfer: Transfer, why: str) -> None:
        """Let the target load a store from storage."""
        transfer.state, transfer.source = "ended", None
        self.refused[transfer.key] = why

    def _give_up(self, transfer: Transfer, why: str, now_s: float) -> None:
        """Load from storage what an executor did not send, and all else that it should send.

        Each of them could cost as much time.
        """
        self.lost_s += now_s - transfer.asked_s
        self._from_storage(transfer, why)
        self.all_from_storage(transfer.owner, why)

    def _left(self) -> list[Transfer]:
        return [each for each in self.all if each.state != "ended"]

    def _take_in_offer(self, transfer: Transfer, scene: Scene) -> None:
        owner = scene.alive[transfer.owner]
        offer = scene.offered(transfer.owner).get(transfer.key)
        if offer is None or offer.name != transfer.name or offer.state == "waiting":
            if scene.now_s - transfer.asked_s > _OFFER_S:
                why = f"executor {transfer.owner} offered nothing for {_OFFER_S:.0f} s"
                self._give_up(transfer, why, scene.now_s)
        elif offer.state == "refused":
            self._from_storage(transfer, offer.why)
        elif scene.location(transfer.key) != transfer.owner:
            # A task of that version has run elsewhere: what has committed may be what it wrote.
            self._from_storage(transfer, f"executor {transfer.owner} has it no more")
        else:
            address = (offer.name, owner.host, owner.port, owner.id)
            transfer.state = "offered"
            self._ready[transfer.key] = (*address, offer.version, offer.checkpoint_id)

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
