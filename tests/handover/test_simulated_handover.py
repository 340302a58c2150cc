"""What a simulated handover shows a test; the protocol itself is tested in tests/handover."""

from __future__ import annotations

from dataclasses import replace

from elastream.handover import QueryShape, Window
from elastream.testing import HandoverScenario, Row, SimulatedHandover, uninterrupted

SHAPE = QueryShape("q", Window.of("time", 4, 2), 1)
CALM = HandoverScenario(SHAPE, [(0, Row(at, 1)) for at in range(80)], begin=10)


def test_the_same_scenario_always_ends_the_same() -> None:
    first, second = (SimulatedHandover(CALM).run() for _ in range(2))
    assert first.boundary == second.boundary
    assert first.now_ms == second.now_ms
    assert first.target.put_out == second.target.put_out


def test_what_neither_side_puts_out_is_lost_and_what_both_do_is_doubled() -> None:
    handover = SimulatedHandover(CALM).run()
    assert (handover.lost, handover.doubled) == ([], [])
    missing = handover.target.put_out.pop()
    again = handover.origin.put_out[0]
    handover.target.put_out.append(again)
    assert (handover.lost, handover.doubled) == ([missing], [again])


def test_a_target_that_is_gone_for_good_keeps_what_is_its_own() -> None:
    calm = SimulatedHandover(CALM).run()
    assert calm.boundary is not None
    own = [one for one in uninterrupted(CALM) if one.coordinate >= calm.boundary.activation]
    effects = range(20)
    ends = [replace(CALM, crash=("target", effect), comes_back=False) for effect in effects]
    lost = [SimulatedHandover(end).run().lost for end in ends]
    assert [] in lost
    assert any(len(windows) >= len(own) // 2 for windows in lost)


def test_an_origin_that_never_comes_back_ends_the_run() -> None:
    handover = SimulatedHandover(replace(CALM, crash=("origin", 0), comes_back=False)).run()
    assert handover.sides["origin"].driver is None
    assert handover.boundary is None
    assert not handover.is_settled
