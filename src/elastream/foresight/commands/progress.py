"""A bar on standard error, where somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(text: str, total: int) -> Iterator[Callable[..., None]]:
    """Show how far a long computation is; nothing is printed but to a terminal.

    Yields ``advance(completed, text)``; without a text the last one stays.
    """
    from rich.markup import escape
    from rich.progress import Progress

    from elastream.cli.screen import Screen

    console = Screen(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(escape(text), total=total)

        def advance(completed: int, text: str | None = None) -> None:
            bar.update(
                task, completed=completed, description=None if text is None else escape(text)
            )

        yield advance
