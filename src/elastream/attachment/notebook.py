"""A summary in a notebook that goes on being up to date while it is shown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from typing import Final

_EVERY_S: Final = 2.0

Show = Callable[[str], Callable[[str], None]]
"""Shows HTML, and returns how to show other HTML in its place."""


def keep_showing(
    html: Callable[[], str], over: Callable[[], bool], show: Show, *, every_s: float = _EVERY_S
) -> threading.Thread:
    """Show what ``html`` returns, and again where that is new, until it is ``over``."""
    shown = html()
    replace = show(shown)

    def follow() -> None:
        before, ended = shown, False
        while not ended:
            pause.wait(every_s)
            ended = over()
            now = html()
            if now != before:
                replace(now)
            before = now

    pause = threading.Event()
    thread = threading.Thread(target=follow, name="elastream notebook", daemon=True)
    thread.start()
    return thread


def in_notebook(html: str) -> Callable[[str], None]:
    """Show HTML in the notebook's cell."""
    shown = import_module("IPython.display")  # it is there, for it has called this
    handle = shown.display(shown.HTML(html), display_id=True)
    return lambda text: None if handle is None else handle.update(shown.HTML(text))
