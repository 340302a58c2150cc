"""The demo as it runs: rate, executors, the partition map, response time, decisions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from elastream.cli.scene_map import scene_map
from elastream.cli.screen import Screen, literal
from elastream.core.decisions import Decision
from elastream.demo.run import Demo

_BARS = "▁▂▃▄▅▆▇█"
_QUIET = frozenset({"hold", "wait"})
_DECISIONS = 7
_WIDTH = 60
_LINE_EVERY_S = 10.0


@contextmanager
def watched(console: Screen) -> Iterator[Callable[[Demo], None]]:
    """Give the function that shows a demo: a live picture on a terminal, lines elsewhere."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield lambda demo: live.update(drawn(demo))


class _Lines:
    """Prints a line now and then, and one for each decision that changes something."""

    def __init__(self, console: Screen) -> None:
        self._console = console
        self._printed = 0
        self._doing = ""
        self._page: str | None = None
        self._last_s = 0.0

    def __call__(self, demo: Demo) -> None:
        if demo.doing != self._doing:
            self._doing = demo.doing
            self._console.print(demo.doing)
        if demo.page != self._page:
            self._page = demo.page
            self._console.print(f"shown on {demo.page}", soft_wrap=True)
        for decision in demo.decisions[self._printed :]:
            if decision.kind not in _QUIET:
                self._console.print(
                    f"  {decision.kind}: {decision.reason}", highlight=False, soft_wrap=True
                )
        self._printed = len(demo.decisions)
        if demo.samples and time.monotonic() - self._last_s > _LINE_EVERY_S:
            self._last_s = time.monotonic()
            self._console.print(_status(demo), soft_wrap=True)


def drawn(demo: Demo) -> RenderableType:
    """Return the picture of this moment."""
    title = literal(f"elastream demo: {demo.doing}")
    if demo.start_ms is None:
        return Panel(Text(f"counts posts for {demo.load.length_s:.0f} s or more"), title=title)
    parts: list[RenderableType] = [_status(demo), Text(), _curves(demo), Text()]
    if demo.scene is not None:
        parts.append(scene_map(demo.scene))
    recent = [d for d in demo.decisions if d.kind not in _QUIET][-_DECISIONS:]
    parts += [Text(), *(_decision(decision) for decision in recent)]
    if demo.decisions and demo.decisions[-1].kind in _QUIET:
        parts.append(literal(f"{demo.decisions[-1].kind}: {demo.decisions[-1].reason}", "dim"))
    slept = f"each word sleeps {demo.service_us:g} µs where its state is, in place of work"
    parts.append(Text(slept, "dim italic"))
    subtitle = None if demo.page is None else Text(demo.page)
    return Panel(Group(*parts), title=title, subtitle=subtitle)


def _status(demo: Demo) -> Text:
    sample = demo.samples[-1] if demo.samples else None
    busy = "-" if sample is None or sample.utilisation is None else f"{sample.utilisation:.0%}"
    answered = f"{demo.counted[-1].response_ms / 1000:.1f} s" if demo.counted else "-"
    return Text.assemble(
        f"{demo.elapsed_s:5.0f} of {demo.load.length_s:.0f} s   ",
        (f"{demo.load.rate(demo.elapsed_s):6.0f} posts/s   ", "bold"),
        (f"{sample.executors if sample else 0} executors ", "bold"),
        f"{busy} busy   response {answered}   {demo.posts_counted:,} posts",
    )


def _curves(demo: Demo) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right")
    table.add_column(no_wrap=True)
    table.add_column()
    rates = [demo.load.rate(demo.load.length_s * step / _WIDTH) for step in range(_WIDTH)]
    now = min(_WIDTH, int(demo.elapsed_s / demo.load.length_s * _WIDTH))
    curve = _spark(rates)
    rate = Text.assemble((curve[:now], "cyan"), (curve[now:], "dim"))
    table.add_row("rate", rate, f"up to {max(rates):.0f} posts/s")
    executors = [sample.executors for sample in demo.samples]
    step = max(1, len(executors) // max(now, 1))
    table.add_row("executors", Text("".join(map(str, executors[::step])), "green"), "")
    response = [file.response_ms / 1000 for file in demo.counted[-_WIDTH:]]
    if response:
        last = f"last {len(response)} batches, up to {max(response):.1f} s"
        table.add_row("response", Text(_spark(response), "yellow"), last)
    return table


def _decision(decision: Decision) -> Text:
    return Text.assemble((f"{decision.kind}: ", "bold"), literal(decision.reason))


def _spark(values: Sequence[float]) -> str:
    most = max(values, default=0.0) or 1.0
    return "".join(_BARS[min(7, int(8 * value / most))] for value in values)
