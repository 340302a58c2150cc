"""The demo as it runs: rate, response time, executors, the partition map, decisions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from elastream.cli.demo.summary import duration
from elastream.cli.screen import Screen, literal
from elastream.core.decisions import Decision
from elastream.core.goal import Marks
from elastream.core.scenes import Scene, SceneExecutor
from elastream.demo.demo_run import DemoRun

_QUIET = frozenset({"hold", "wait"})
_DECISIONS = 7
_BUSY_CELLS = 20
_LINE_EVERY_S = 10.0


@contextmanager
def display(console: Screen) -> Iterator[Callable[[DemoRun], None]]:
    """Yield the function that shows a demo: a live picture on a terminal, lines elsewhere."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield lambda demo: live.update(live_view(demo))


class _Lines:
    """Prints a line now and then, and one for each decision that changes something."""

    def __init__(self, console: Screen) -> None:
        self._console = console
        self._printed = 0
        self._doing = ""
        self._page: str | None = None
        self._last_s = 0.0

    def __call__(self, demo: DemoRun) -> None:
        if demo.doing != self._doing:
            self._doing = demo.doing
            self._print(demo.doing)
        if demo.page != self._page:
            self._page = demo.page
            self._print(f"shown on {demo.page}")
        for decision in demo.decisions[self._printed :]:
            if decision.kind not in _QUIET:
                self._print(f"  {decision.kind}: {decision.reason}")
        self._printed = len(demo.decisions)
        if demo.samples and time.monotonic() - self._last_s > _LINE_EVERY_S:
            self._last_s = time.monotonic()
            self._print(_status(demo))

    def _print(self, line: str | Text) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)


def live_view(demo: DemoRun) -> RenderableType:
    """Return the picture of this moment."""
    title = literal(f"elastream demo: {demo.doing}")
    if demo.start_ms is None:
        return Panel(Text(f"counts posts for {demo.length_s:.0f} s or more"), title=title)
    parts: list[RenderableType] = [_status(demo), Text()]
    if demo.scene is not None:
        parts.append(partition_map(demo.scene))
    recent = [d for d in demo.decisions if d.kind not in _QUIET][-_DECISIONS:]
    parts += [Text(), *(_decision(decision) for decision in recent)]
    if demo.decisions and demo.decisions[-1].kind in _QUIET:
        parts.append(literal(f"{demo.decisions[-1].kind}: {demo.decisions[-1].reason}", "dim"))
    parts.append(Text(demo.work, "dim italic"))
    subtitle = None if demo.page is None else Text(demo.page)
    return Panel(Group(*parts), title=title, subtitle=subtitle)


def _status(demo: DemoRun) -> Text:
    executors = demo.samples[-1].executors if demo.samples else 0
    measured = (each.utilisation for each in reversed(demo.decisions))
    busy = _percent(next((share for share in measured if share is not None), None))
    response = "-" if demo.last_wait_ms is None else duration(demo.last_wait_ms)
    return Text.assemble(
        f"{demo.elapsed_s:5.0f} of {demo.length_s:.0f} s   ",
        (f"{demo.rate(demo.elapsed_s):6.0f} posts/s   ", "bold"),
        (f"{executors} executors ", "bold"),
        f"{busy} busy   response {response}   {demo.rows:,} {demo.rows_name}",
    )


def partition_map(scene: Scene) -> Table:
    """Return a row for each executor: how busy it is, and its partitions by number.

    ``3>b`` is about to move to executor b.
    """
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, executor in scene.executors.items():
        held = [(task, each) for task, each in scene.tasks.items() if each.executor == name]
        cells = " ".join(
            f"{task.partition}" + ("" if each.heading is None else f">{each.heading}")
            for task, each in held
        )
        bar = _busy_bar(executor, scene.loop.marks)
        table.add_row(f"executor {name}", bar, _percent(executor.busy), literal(cells))
    return table


def _busy_bar(executor: SceneExecutor, marks: Marks | None) -> Text:
    """Return how busy an executor is; red above the band that the goal keeps."""
    if executor.spare or not executor.warm:
        return Text(("spare" if executor.spare else "cold").center(_BUSY_CELLS), "dim")
    busy = executor.busy or 0.0
    bar = "█" * round(_BUSY_CELLS * min(busy, 1.0))
    above = marks is not None and busy > marks.high
    return Text(bar.ljust(_BUSY_CELLS, "░"), "red" if above else "green")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _decision(decision: Decision) -> Text:
    return Text.assemble((f"{decision.kind}: ", "bold"), literal(decision.reason))
