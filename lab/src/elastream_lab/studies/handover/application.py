"""One side of a handover in a process of its own, driven by commands.

Started as ``python -m elastream_lab.studies.handover.application PARTITIONS [MASTER]``; without a
master it has an embedded cluster of its own, with one executor. It reads a command a line from
standard input, as JSON, and answers each with a line; at the end of the input it ends. The session
stays for all the queries of a study, so that only the first finds it cold.

=========  ====================================================================================
``warm``   run the query on other readings until some batches are done, and throw it all away
``serve``  run it from the start; with a token, hand it over: the answer has the address
``join``   take it over from an address
``look``   say what has failed so far
``end``    stop it: the answer says which rows were read and when a handed over query had ended
=========  ====================================================================================
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from elastream.handover.events import Timing
from elastream.handover.ledger import Note, OwnershipLog, RecordFile
from elastream.handover.session import hand_over, take_over
from elastream.handover.spark.application_session import application_session
from elastream.handover.spark.origin_stream import OriginStream
from elastream.handover.spark.target_stream import TargetStream
from elastream.handover.spark.windowed import WindowedQuery
from elastream.handover.transport import Address, OriginServer, TargetLink
from elastream.spark.observe.endings import ending
from elastream_lab.applications.readings.json_lines import json_lines
from elastream_lab.applications.readings.source import Readings
from elastream_lab.studies.handover.outputs import QUERIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_WARM_BATCHES: Final = 10
_WARM_TIMEOUT_S: Final = 120.0
_CONFIG: Final = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
_TIMING: Final = Timing(patience_ms=120_000)


@dataclass(frozen=True, slots=True)
class Task:
    """What a command is about."""

    query: str
    readings: Readings
    range_ms: int
    trigger_s: float
    folder: Path
    """Where this side keeps its checkpoint, record, log and results."""

    def windowed(self) -> WindowedQuery:
        """Return the query."""
        return QUERIES[self.query].query(self.readings, self.range_ms)

    def as_json(self) -> dict[str, object]:
        """Return it for the other process."""
        from dataclasses import asdict

        return {**asdict(self), "folder": str(self.folder)}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Task:
        """Return what :meth:`as_json` gave."""
        readings = Readings(**fields["readings"])
        folder = Path(fields["folder"])
        return cls(fields["query"], readings, fields["range_ms"], fields["trigger_s"], folder)


class _Application:
    """The session, and the query that runs in it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._stream: OriginStream | TargetStream | None = None
        self._close: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._ended_ms: int | None = None
        self._failures: list[str] = []

    def obey(self, fields: dict[str, Any]) -> dict[str, object]:
        """Carry a command out and return the answer."""
        if fields["do"] == "end":
            return self.end()
        if fields["do"] == "look":
            return {"failures": self._failed()}
        task = Task.from_json(fields["task"])
        if fields["do"] == "warm":
            return self.warm(task)
        self._stop, self._ended_ms = threading.Event(), None
        if fields["do"] == "serve":
            return self.serve(task, fields["token"])
        return self.join(task, fields["token"], fields["address"])

    def warm(self, task: Task) -> dict[str, object]:
        stream = OriginStream(task.windowed(), json_lines(task.folder / "results"), task.folder)
        stream.start(self._spark, trigger_s=task.trigger_s)
        deadline = time.monotonic() + _WARM_TIMEOUT_S
        try:
            while _batches(stream) < _WARM_BATCHES and time.monotonic() < deadline:
                time.sleep(0.2)
        finally:
            stream.stop()
        return {"batches": _batches(stream)}

    def serve(self, task: Task, token: str | None) -> dict[str, object]:
        windowed = task.windowed()
        stream = OriginStream(windowed, json_lines(task.folder / "results"), task.folder)
        stream.start(self._spark, trigger_s=task.trigger_s)
        self._stream = stream
        if token is None:
            return {"address": None}
        server = OriginServer(Address(), token)
        self._close = server.close
        records, log = RecordFile(task.folder / "record.json"), _log(task.folder)

        def act() -> None:
            origin = hand_over(
                stream, windowed.shape, server, records, log=log, stop=self._stop, timing=_TIMING
            )
            if origin.is_done:
                stream.stop()
                self._ended_ms = _now_ms()

        self._run(act)
        return {"address": str(server.address)}

    def join(self, task: Task, token: str, address: str) -> dict[str, object]:
        windowed, sink = task.windowed(), json_lines(task.folder / "results")
        stream = TargetStream(windowed, sink, task.folder, self._spark, trigger_s=task.trigger_s)
        link = TargetLink(Address.of(address), token)
        self._stream, self._close = stream, link.close
        records, log = RecordFile(task.folder / "record.json"), _log(task.folder)
        self._run(
            lambda: take_over(
                stream, windowed.shape, link, records, log=log, stop=self._stop, timing=_TIMING
            )
        )
        return {}

    def end(self) -> dict[str, object]:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        stream, self._stream, self._thread = self._stream, None, None
        read: list[tuple[int, int]] = []
        if stream is not None:
            stream.stop()
            read = _read(stream)
        self._close()
        self._close = lambda: None
        failures, self._failures = self._failures, []
        return {"read": read, "ended_ms": self._ended_ms, "failures": failures}

    def _failed(self) -> list[str]:
        """Return what has failed: the protocol next to the query, or the query itself."""
        streaming = None if self._stream is None else self._stream.streaming
        failure = None if streaming is None else streaming.exception()
        return self._failures + ([] if failure is None else [ending(failure)])

    def _run(self, act: Callable[[], object]) -> None:
        def guarded() -> None:
            try:
                act()
            except Exception as error:
                self._failures.append(str(error))

        self._thread = threading.Thread(target=guarded, name="handover")
        self._thread.start()


def _log(folder: Path) -> Callable[[Note], None]:
    log = OwnershipLog(folder / "handover.jsonl")
    return lambda note: log.append(note, at_ms=_now_ms())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _batches(stream: OriginStream) -> int:
    streaming = stream.streaming
    return 0 if streaming is None else len(streaming.recentProgress)


def _read(stream: OriginStream | TargetStream) -> list[tuple[int, int]]:
    """Return the first position read and the one after the last, for each input."""
    read: dict[int, tuple[int, int]] = {}
    for progress in [] if stream.streaming is None else stream.streaming.recentProgress:
        for i, source in enumerate(json.loads(progress.json)["sources"]):
            if source["endOffset"] is None:
                continue
            end = int(source["endOffset"]["position"])
            first = read[i][0] if i in read else end - int(source["numInputRows"])
            read[i] = (first, end)
    return [read[i] for i in sorted(read)]


def _main(partitions: int, master: str | None) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us to handle
    answers: IO[str] = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Java prints is not an answer
    session = application_session(master=master, partitions=partitions, config=_CONFIG)
    with session as spark:
        application = _Application(spark)
        print("{}", file=answers, flush=True)
        for line in sys.stdin:
            answer = application.obey(json.loads(line))
            print(json.dumps(answer), file=answers, flush=True)
        application.end()


if __name__ == "__main__":
    _main(int(sys.argv[1]), next(iter(sys.argv[2:]), None))
