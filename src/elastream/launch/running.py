"""A program of somebody else, run as it is, with every stateful query it starts attached."""

from __future__ import annotations

from contextlib import ExitStack

from elastream.launch.hooks import hooked
from elastream.launch.program import Program, run_program
from elastream.launch.session import LaunchedSession
from elastream.launch.settings import RunSettings
from elastream.spark.sessions.interrupts import interrupts_ignored


def run_attached(program: Program, settings: RunSettings) -> int:
    """Run the program; return 0, or raise what ended it."""
    session, hooks = LaunchedSession(settings), ExitStack()
    hooks.enter_context(hooked(session))

    def at_end() -> None:
        hooks.close()
        with interrupts_ignored():
            session.let_go()

    run_program(program, at_end)
    return 0
