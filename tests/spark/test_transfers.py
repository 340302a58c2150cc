"""When each transfer between executors begins, and what becomes of those that cannot be made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from elastream.spark.internals.keepers import CopyStatus, OfferStatus
from elastream.spark.internals.spark_internals import ExecutorEntry
from elastream.spark.steer.transfers import Scene, Transfers

MB = 1_000_000
ALIVE = {name: ExecutorEntry(name, f"host {name}", 1, 0, port=7000) for name in "abc"}
READY = CopyStatus("ready", 7, 0, MB, 100, "", "")


class Run:
    """Transfers whose offers are made at once, unless they are refused."""

    def __init__(self, *stores: tuple[str, str, str]) -> None:
        self.transfers = Transfers.between(stores)
        self.copies: dict[str, CopyStatus] = {}
        self.refused: dict[str, str] = {}
        self.now_s = 0.0
        self.runs = {key for key, _, _ in stores}
        self.places = {key: owner for key, owner, _ in stores}

    def advance(self, alive: str = "abc") -> frozenset[str]:
        entries = {name: ALIVE[name] for name in alive}
        return self.transfers.advance(
            Scene(self.now_s, entries, self.runs, self._offered, self.places.get, self.copies)
        )

    def _offered(self, executor: str) -> Mapping[str, OfferStatus]:
        return {
            key: OfferStatus(name, "refused", -1, "", 0, 0, self.refused[key])
            if key in self.refused
            else OfferStatus(name, "offered", 7, "null", MB, 3, "")
            for key, name in self.transfers.offers(executor).items()
            if self.refused.get(key) != "silence"
        }

    def sending(self) -> set[str]:
        return self.of("sending")

    def of(self, state: str) -> set[str]:
        return {each.key for each in self.transfers.all if each.state == state}


def test_an_executor_sends_one_store_at_a_time_and_receives_one_in_the_given_order() -> None:
    run = Run(("1", "a", "b"), ("2", "a", "c"), ("3", "c", "b"), ("4", "b", "c"))
    run.advance()
    assert run.sending() == set(), "nothing is offered yet"
    run.advance()
    assert run.sending() == {"1", "4"}
    run.copies["4"] = READY
    run.advance()
    assert run.sending() == {"1"}, "a sends already, and b receives"
    run.copies["1"] = READY
    run.advance()
    run.advance()
    assert run.sending() == {"2", "3"}
    assert run.transfers.offers("b") == {}


def test_a_source_is_the_address_of_its_offer_and_its_version() -> None:
    run = Run(("1", "a", "b"))
    assert run.transfers.sources("b") == {"1": None}
    assert run.advance() == {"a"}
    name = run.transfers.offers("a")["1"]
    assert run.advance() == {"a", "b"}
    assert run.transfers.sources("b") == {"1": (name, "host a", 7000, "a", 7, "null")}
    run.copies["1"] = READY
    assert run.advance() == {"a", "b"}
    assert (run.transfers.owners, run.transfers.offers("a")) == (frozenset(), {})


@pytest.mark.parametrize("trouble", ["refused", "silence", "lost", "broken", "elsewhere"])
def test_what_cannot_be_sent_is_loaded_from_storage(trouble: str) -> None:
    run = Run(("1", "a", "b"), ("2", "a", "b"))
    if trouble in ("refused", "silence"):
        run.refused = {"1": "it is closed" if trouble == "refused" else "silence"}
    run.advance()
    run.now_s = 60.0
    if trouble == "elsewhere":
        run.places["1"] = "c"
    run.advance("bc" if trouble == "lost" else "abc")
    if trouble == "broken":
        run.copies["1"] = replace(READY, state="opening", version=-1, not_sent="it came short")
        run.advance()
    whys = {
        "refused": "it is closed",
        "silence": "executor a offered nothing for 15 s",
        "elsewhere": "executor a has it no more",
        "lost": "executor a was lost",
        "broken": "it came short",
    }
    assert run.transfers.refused["1"] == whys[trouble]
    assert "1" not in run.transfers.sources("b")
    given_up = trouble in ("silence", "broken", "lost")
    assert ("2" in run.transfers.refused) == given_up, "it could take as long again"
    assert run.transfers.lost_s == (60.0 if trouble in ("silence", "broken") else 0.0)


def test_what_an_executor_sends_goes_on_when_its_next_offer_does_not_come() -> None:
    run = Run(("1", "a", "b"), ("2", "a", "c"), ("3", "a", "c"))
    run.refused = {"2": "silence"}
    run.advance()
    run.advance()
    assert (run.sending(), run.of("offering")) == ({"1"}, {"2"})
    run.now_s = 60.0
    run.advance()
    assert run.sending() == {"1"}
    assert run.transfers.refused.keys() == {"2", "3"}


@pytest.mark.parametrize("ended", ["target lost", "query ended"])
def test_what_has_no_target_or_no_query_any_more_makes_way_for_the_next(ended: str) -> None:
    run = Run(("1", "a", "b"), ("2", "a", "c"))
    run.advance()
    run.advance()
    assert run.sending() == {"1"}
    if ended == "query ended":
        run.runs.remove("1")
    run.advance("ac" if ended == "target lost" else "abc")
    assert run.sending() == {"2"}
    assert run.transfers.refused == {}
    assert "1" not in run.transfers.offers("a")
    assert "1" not in run.transfers.sources("b")


def test_a_link_carries_what_it_was_seen_to_carry_at_best() -> None:
    run = Run(("1", "a", "b"), ("2", "a", "c"), ("3", "c", "b"), ("4", "b", "a"))
    seen = {"1": (80 * MB, 1000), "2": (20 * MB, 1000), "3": (0, 1000), "4": (1000, 1)}
    copies = {k: replace(READY, sent=sent, took_ms=ms) for k, (sent, ms) in seen.items()}
    assert run.transfers.links(copies) == {"a": 80.0 * MB, "b": 80.0 * MB, "c": 20.0 * MB}
