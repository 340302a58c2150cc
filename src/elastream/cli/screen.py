"""Tables and pictures for people; markup and control sequences in names are shown, not acted on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from elastream.model.words import printable


def literal(text: str, style: str = "") -> Text:
    """Return text of others, of one line or several, for a table or a picture."""
    return Text(_by_lines(text), style)


class Screen(Console):
    """A console that takes no text for markup, and escapes what a terminal would act on.

    Styles are given apart from the text, as a ``style``. Text of others with a style of its own is
    made with :func:`literal`, so that columns get the right width.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape what a table or a line has as plain text, before it is measured."""
        return super().render_str(_by_lines(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Escape the rest in the output."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(_by_lines(segment.text), segment.style)


def _by_lines(text: str) -> str:
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
