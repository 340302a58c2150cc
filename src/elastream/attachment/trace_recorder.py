"""What an attachment records of itself, in bounded space, in a folder.

::

    FOLDER/samples.jsonl, samples.jsonl.1, …   lines of the decision log: samples, and changes done
    FOLDER/values.parquet                      what was learnt last

The next attachment with the same folder knows the sizes that followed one another, and the load by
its times. ``elastream trace from-log`` makes a trace of the file, as of any decision log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from elastream.core.decision_log import DecisionLog, LogEntry, read_log
from elastream.core.decisions import Decision
from elastream.core.learning import Learning
from elastream.core.samples import Sample
from elastream.model.errors import ProblemError

SAMPLES: Final = "samples.jsonl"
_MAX_BYTES: Final = 16 << 20
_KEEP: Final = 3


class TraceRecorder:
    """Appends samples and changes to the files of a folder."""

    def __init__(self, folder: Path, *, max_bytes: int = _MAX_BYTES, keep: int = _KEEP) -> None:
        if folder.exists() and not folder.is_dir():
            raise ProblemError("trace", f"{folder} is a file; name a folder")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ProblemError("trace", f"{folder} cannot be made: {error.strerror}") from None
        self._log = DecisionLog(folder / SAMPLES, max_bytes=max_bytes, keep=keep)

    @property
    def learning(self) -> Learning:
        """What was recorded before."""
        try:
            return learning_of(read_log(self._log.path))
        except ProblemError:  # nothing yet
            return Learning()

    def past(self) -> Iterator[tuple[int, float]]:
        """Yield when samples were taken, in order, and the cores that all tasks kept busy then."""
        try:
            for entry in read_log(self._log.path):
                if isinstance(entry, Sample):
                    yield entry.at_ms, sum(task.work for task in entry.tasks.values())
        except ProblemError:  # nothing yet
            return

    def write(self, entry: LogEntry) -> None:
        """Record a sample, or a change that is done; pass over the rest."""
        if isinstance(entry, Sample) or (isinstance(entry, Decision) and entry.kind == "done"):
            self._log.append(entry)


def learning_of(entries: Iterable[Decision | Sample]) -> Learning:
    """Return the sizes that followed one another in a log."""
    learning = Learning()
    for entry in entries:
        if isinstance(entry, Sample):
            learning = learning.resized(entry.at_ms, len(entry.executors))
        elif entry.kind == "done" and entry.at_ms is not None:
            learning = learning.resized(entry.at_ms, entry.executors)
    return learning
