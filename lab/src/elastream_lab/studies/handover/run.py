"""The paper's queries with and without a handover: two driver processes, one machine, one run.

Each query runs twice under the same settings, as in paper 002, section 4. First with a handover:
the origin runs the query, the target joins after some seconds, and both go on until the origin has
stopped and the four seconds around the handover are over. Then without: the origin alone, over the
same readings, for as long. Both applications have run the query before, on other readings, so that
neither is cold. All of it is repeated, each time on readings of its own.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from elastream.model.errors import SparkError
from elastream_lab.studies.handover.application import Task
from elastream_lab.studies.handover.outputs import QUERIES, Output, PaperQuery, WrittenOutput
from elastream_lab.studies.handover.settings import AROUND_MS, HandoverSettings
from elastream_lab.studies.handover.sides import Side

_LEAD_MS: Final = 1000
_POLL_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class QueryRun:
    """One query, with and without a handover; times relative to the start of the streams."""

    query: PaperQuery
    due_ms: Mapping[Output, int]
    """The results that are compared, by plain computation."""
    by_origin: tuple[WrittenOutput, ...]
    by_target: tuple[WrittenOutput, ...]
    alone: tuple[WrittenOutput, ...]
    """What the run without a handover put out."""
    handover_ms: int
    """When the target's first result is due."""
    decided_in_ms: int
    """From the offer of a boundary to the decision: so long the origin may hold results back."""
    joined_in_ms: int
    """From the target's joining to the decision."""
    stopped_in_ms: int
    """From the target's joining until the origin has put out its last window."""
    rows_twice: int
    """Readings that both sides read."""

    @property
    def handed(self) -> tuple[WrittenOutput, ...]:
        """What the run with a handover put out, both sides together."""
        return *self.by_origin, *self.by_target

    @property
    def is_exact(self) -> bool:
        """Both runs put out each result once, and nothing else."""
        expected = Counter(list(self.due_ms))
        return bool(expected) and all(
            Counter(each.output for each in run) == expected for run in (self.handed, self.alone)
        )


def run_query(
    name: str,
    settings: HandoverSettings,
    sides: tuple[Side, Side],
    folder: Path,
    say: Callable[[str], None],
) -> tuple[QueryRun, ...]:
    """Run a query with a handover, then without one; as often as the settings say."""
    query, folder = QUERIES[name], folder / name
    say(f"{name}: both applications run it on other readings")
    for side, called in zip(sides, ("origin", "target"), strict=True):
        readings = replace(settings.readings(_soon_ms()), seed=settings.seed + settings.repeats)
        side.tell(
            "warm",
            Task(name, readings, settings.range_ms, settings.trigger_s, folder / f"warm-{called}"),
        )
    for side in sides:
        side.answer()
    return tuple(
        _both(
            query,
            replace(settings, seed=settings.seed + i),
            sides,
            folder / str(i),
            lambda line, i=i: say(f"{name}, {i + 1} of {settings.repeats}: {line}"),  # type: ignore[misc]
        )
        for i in range(settings.repeats)
    )


def _both(
    query: PaperQuery,
    settings: HandoverSettings,
    sides: tuple[Side, Side],
    folder: Path,
    say: Callable[[str], None],
) -> QueryRun:
    say(f"with a handover after {settings.join_at_s:g} s")
    handed = _handed_over(query, settings, sides, folder)
    say("without a handover")
    due = _due_before(query, settings, handed.until_ms)
    alone = _alone(query, settings, sides[0], folder / "alone", due, handed.until_ms)
    return QueryRun(
        query,
        due,
        _compared(handed.by_origin, due, handed.all_due),
        _compared(handed.by_target, due, handed.all_due),
        _compared(alone, due, handed.all_due),
        handed.handover_ms,
        handed.turns_ms["commit"] - handed.turns_ms["offer"],
        handed.turns_ms["commit"] - handed.turns_ms["accept"],
        handed.turns_ms["finish"] - handed.turns_ms["accept"],
        handed.rows_twice,
    )


@dataclass(frozen=True, slots=True)
class _Handed:
    by_origin: list[WrittenOutput]
    by_target: list[WrittenOutput]
    all_due: Mapping[Output, int]
    turns_ms: Mapping[str, int]
    handover_ms: int
    until_ms: int
    """Results due before are compared."""
    rows_twice: int


def _handed_over(
    query: PaperQuery, settings: HandoverSettings, sides: tuple[Side, Side], folder: Path
) -> _Handed:
    origin, target = sides
    start_ms, token = _soon_ms(), secrets.token_hex(16)
    readings = settings.readings(start_ms)
    tasks = [
        Task(query.name, readings, settings.range_ms, settings.trigger_s, folder / side)
        for side in ("origin", "target")
    ]
    due = query.due(readings, settings.range_ms)
    address = origin.ask("serve", tasks[0], token=token)["address"]
    _sleep_until(start_ms + settings.join_at_s * 1000)
    target.ask("join", tasks[1], token=token, address=address)
    deadline = time.monotonic() + settings.longest_s
    while "finish" not in (turns := _turns(tasks[0].folder)):
        if "abort" in turns:
            raise SparkError(f"{query.name}: {turns['abort']['reason']}")
        _wait(sides, deadline, f"{query.name}: the handover did not end")
    activation = turns["commit"]["boundary"]["activation"]
    handover_ms = _first_due(query, due, activation, start_ms)
    finished_ms = turns["finish"]["at_ms"] - start_ms
    until_ms = max(finished_ms, handover_ms + AROUND_MS) + 500
    wanted = {output for output, at in due.items() if at < until_ms}
    _sleep_until(start_ms + until_ms)
    while not wanted <= {
        each.output for task in tasks for each in query.written(task.folder / "results", start_ms)
    }:
        _wait(sides, deadline, f"{query.name}: results are missing after the handover")
    answers = [side.ask("end") for side in sides]
    _expect_no_failure(query, answers)
    by_origin, by_target = (
        list(query.written(task.folder / "results", start_ms)) for task in tasks
    )
    turns_ms = {kind: turn["at_ms"] for kind, turn in turns.items()}
    rows_twice = _rows_twice(answers[0]["read"], answers[1]["read"])
    return _Handed(by_origin, by_target, due, turns_ms, handover_ms, until_ms, rows_twice)


def _alone(
    query: PaperQuery,
    settings: HandoverSettings,
    side: Side,
    folder: Path,
    due: Mapping[Output, int],
    until_ms: int,
) -> list[WrittenOutput]:
    start_ms = _soon_ms()
    readings = settings.readings(start_ms)
    task = Task(query.name, readings, settings.range_ms, settings.trigger_s, folder)
    side.ask("serve", task, token=None)
    _sleep_until(start_ms + until_ms)
    deadline = time.monotonic() + settings.longest_s
    wanted = set(due)
    while not wanted <= {each.output for each in query.written(folder / "results", start_ms)}:
        _wait([side], deadline, f"{query.name}: results are missing")
    _expect_no_failure(query, [side.ask("end")])
    return list(query.written(folder / "results", start_ms))


def _due_before(query: PaperQuery, settings: HandoverSettings, until_ms: int) -> dict[Output, int]:
    due = query.due(settings.readings(0), settings.range_ms)
    return {output: at for output, at in due.items() if at < until_ms}


def _compared(
    written: Sequence[WrittenOutput], due: Mapping[Output, int], all_due: Mapping[Output, int]
) -> tuple[WrittenOutput, ...]:
    """Return what is compared: all but the results that are due after the last one compared."""
    return tuple(each for each in written if each.output in due or each.output not in all_due)


def _first_due(query: PaperQuery, due: Mapping[Output, int], activation: int, start_ms: int) -> int:
    first = activation - start_ms if "coordinate" in query.times else activation
    return min(at for output, at in due.items() if int(output[0]) >= first)


def _turns(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the lines of the origin's log by their kinds."""
    log = folder / "handover.jsonl"
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    turns = [json.loads(line) for line in lines if line.endswith("\n")]
    return {turn["kind"]: turn for turn in turns}


def _rows_twice(origin: Sequence[Sequence[int]], target: Sequence[Sequence[int]]) -> int:
    """Return how many positions both read, over all inputs."""
    return sum(
        max(0, min(theirs[1], ours[1]) - max(theirs[0], ours[0]))
        for ours, theirs in zip(origin, target, strict=True)
    )


def _expect_no_failure(query: PaperQuery, answers: Sequence[Mapping[str, Any]]) -> None:
    for answer in answers:
        if answer["failures"]:
            raise SparkError(f"{query.name}: {answer['failures'][0]}")


def _soon_ms() -> int:
    return time.time_ns() // 1_000_000 + _LEAD_MS


def _sleep_until(at_ms: float) -> None:
    time.sleep(max(0.0, at_ms / 1000 - time.time()))


def _wait(sides: Sequence[Side], deadline: float, overdue: str) -> None:
    for side in sides:
        side.check()
        for failure in side.ask("look")["failures"]:
            raise SparkError(f"a query has failed: {failure}")
    if time.monotonic() > deadline:
        raise SparkError(f"{overdue} in time")
    time.sleep(_POLL_S)
