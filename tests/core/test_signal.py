"""How long a need must last before it is acted on."""

from __future__ import annotations

from elastream.core.goal import Need
from elastream.core.state import Signal

ONE = frozenset({"q"})


def rounds_after(*needs: Need) -> int:
    signal = Signal()
    for need in needs:
        signal = signal.said(need, "q", ONE)
    assert signal.need == needs[-1]
    return signal.rounds


def test_a_need_that_turns_into_another_starts_anew() -> None:
    assert rounds_after("scale-out", "scale-out") == 2
    assert rounds_after("scale-out", "hold") == 1
    assert rounds_after("scale-in", "scale-out") == 1
    assert rounds_after("rebalance", "scale-in") == 1


def test_a_rebalance_and_a_scale_out_relieve_the_same_executor() -> None:
    assert rounds_after("rebalance", "scale-out", "rebalance") == 3


def test_a_round_takes_a_batch_of_every_query() -> None:
    both = frozenset({"p", "q"})
    signal = Signal().said("rebalance", "p", both).said("scale-out", "p", both)
    assert signal.rounds == 0
    assert signal.said("rebalance", "q", both).rounds == 1
