"""An attachment at a glance: a line or two in a terminal, a small table in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from elastream.core.decisions import Decision
from elastream.core.scenes import Scene, SceneExecutor, take_scene
from elastream.core.state import LoopState
from elastream.model.words import join_names, pluralize, printable


def summary_text(state: LoopState) -> str:
    """Return what an attachment is in one line."""
    scene = take_scene(state)
    queries = join_names(sorted(scene.queries)) or "no query yet"
    busy = scene.loop.utilisation
    used = "" if busy is None else f", {busy:.0%} busy"
    executors = pluralize(len(scene.executors), "executor")
    return printable(f"<Attachment of {queries}: {_doing(scene)}; {executors}{used}>")


def summary_html(state: LoopState, decisions: Sequence[Decision], page: str | None) -> str:
    """Return a table of the executors with what they hold, and what was decided last."""
    scene = take_scene(state)
    rows = [_row(scene, name, each) for name, each in scene.executors.items()]
    head = _cells("th", ("executor", "host", "busy", "partitions", "state", "copies"))
    items = "".join(
        f"<li>{_moment(each)} <b>{each.kind}</b>: {escape(each.reason)}</li>"
        for each in reversed(decisions)
    )
    link = "" if page is None else f' (<a href="{escape(page)}" target="_blank">page</a>)'
    return (
        f"<p><b>elastream</b>: {escape(_doing(scene))}{link}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        f"<ul>{items}</ul>"
    )


def _doing(scene: Scene) -> str:
    change = scene.change
    if change is not None:
        way = f"{change.kind} from {change.before} to {change.executors} executors"
        return f"{way} ({change.phase})"
    mode, phase = scene.loop.mode, scene.loop.phase
    return mode if mode == "let go" else f"{mode}, {phase}"


def _row(scene: Scene, name: str, executor: SceneExecutor) -> str:
    held = [task for task in scene.tasks.values() if task.executor == name]
    copies = sum(task.standby == name for task in scene.tasks.values())
    busy = "" if executor.busy is None else f"{executor.busy:.0%}"
    size = f"{sum(task.state_bytes for task in held) / 1e6:,.1f} MB"
    kind = " (spare)" if executor.spare else "" if executor.warm else " (cold)"
    cells = (f"{name}{kind}", executor.host, busy, str(len(held)), size, str(copies))
    return f"<tr>{_cells('td', cells)}</tr>"


def _cells(kind: str, texts: Sequence[str]) -> str:
    return "".join(f"<{kind}>{escape(text)}</{kind}>" for text in texts)


def _moment(decision: Decision) -> str:
    if decision.at_ms is None:
        return ""
    return f"{datetime.fromtimestamp(decision.at_ms / 1000, UTC):%H:%M:%S}"
