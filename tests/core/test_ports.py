from __future__ import annotations

import threading

import pytest

from elastream.core.ports import Ticket
from elastream.model.errors import GivenUpError

LONG_S = 30.0
"""Longer than any test takes."""


def test_a_ticket_is_valid_until_it_is_cancelled() -> None:
    ticket = Ticket()
    ticket.check()
    valid = [ticket.valid]
    for _ in range(2):
        ticket.cancel()
        valid.append(ticket.valid)
    assert valid == [True, False, False]
    with pytest.raises(GivenUpError, match="it was given up meanwhile"):
        ticket.check()


def test_who_waits_with_a_valid_ticket_waits_as_long_as_asked() -> None:
    Ticket().wait(0.0)


def test_who_waits_with_a_cancelled_ticket_does_not_wait() -> None:
    ticket = Ticket()
    ticket.cancel()
    with pytest.raises(GivenUpError):
        ticket.wait(1e6)


def test_who_waits_is_woken_when_the_ticket_is_cancelled() -> None:
    ticket, begun, given_up = Ticket(), threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        try:
            ticket.wait(1e6)
        except GivenUpError:
            given_up.set()

    threading.Thread(target=wait, daemon=True).start()
    assert begun.wait(LONG_S)
    ticket.cancel()
    assert given_up.wait(LONG_S)
