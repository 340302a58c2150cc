"""A bar on standard error, where somebody looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Moves the bar."""

    def __call__(self, completed: int, text: str | None = None) -> None:
        """Show how much is done, and what is going on if that has changed."""


@contextmanager
def progress(text: str, total: int, completed: int = 0) -> Iterator[Advance]:
    """Show how far a long computation is; nothing is printed but to a terminal."""
    from rich.markup import escape
    from rich.progress import Progress

    from elastream.cli.screen import Screen

    console = Screen(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(escape(text), total=total, completed=completed)

        def advance(completed: int, text: str | None = None) -> None:
            bar.update(
                task, completed=completed, description=None if text is None else escape(text)
            )

        yield advance
