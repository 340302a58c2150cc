"""What a page shows of a run: its records, its counts, and its present scene.

Entries come from the loop as it decides, or from the lines of its log.
"""

from __future__ import annotations

import threading

from elastream.core.decision_log import LogEntry
from elastream.core.decisions import Decision, line_of
from elastream.core.samples import Sample
from elastream.core.scene_lines import Json, SceneEncoder, laid_over, whole_record
from elastream.core.scenes import Scene
from elastream.page.counts import Counts
from elastream.page.history import History


class Run:
    """One run of an application, or several in the same log."""

    def __init__(self, title: str, *, file: str | None = None) -> None:
        self.title = title
        self.file = file
        """The log it is read from; ``None`` where it runs in this process."""
        self.history = History()
        self.counts = Counts()
        self.why_over: str | None = None
        """Why nothing will follow; ``None`` where something may."""
        self._encoder = SceneEncoder()
        self._scene: Scene | None = None
        self._seen: Json | None = None
        self._taking = threading.Lock()

    def take(self, entry: LogEntry) -> None:
        """Take an entry of the loop, which writes to this as to a log, from any thread."""
        with self._taking:
            if isinstance(entry, Decision):
                self._take_decision(entry, line_of(entry))
            elif isinstance(entry, Scene):
                record, line = self._encoder.encode(entry)
                self._scene = entry
                self._take_scene(record, line)

    def take_line(self, entry: Decision | Sample | Json, line: str) -> None:
        """Take a line of a log, with its entry."""
        if isinstance(entry, Decision):
            self._take_decision(entry, line)
        elif isinstance(entry, dict) and (self._seen is not None or entry.get("whole")):
            self._seen = laid_over(self._seen or entry, entry)
            self._take_scene(entry, line)

    def end(self, why: str) -> None:
        """Mark that nothing will follow, and why."""
        self.why_over = self.why_over or why
        self.history.close()

    def seen(self) -> Json | None:
        """Return the present scene as a whole record; ``None`` before there is one."""
        scene = self._scene
        return self._seen if scene is None else whole_record(scene)

    def metrics(self, accept: str = "") -> tuple[bytes, str]:
        """Return the metrics and their content type; ``accept`` is the header of the request."""
        from elastream.page.metrics import metrics_text

        return metrics_text(self.counts, self.seen(), accept)

    def _take_decision(self, decision: Decision, line: str) -> None:
        self.counts.take_decision(decision)
        self.history.append(line)
        self.why_over = decision.reason if decision.kind == "detach" else None

    def _take_scene(self, record: Json, line: str) -> None:
        self.counts.take_batches(record.get("batches", []))
        self.history.append(line, scene=True)
