"""The learner: lessons computed in a separate process, at low priority.

Values take seconds to a minute of one core. In the driver's own process they would delay the
listener threads, so another process computes them and writes them to a file. It is started as
``python -m elastream.foresight.learner VALUES``, with the lesson as JSON on standard input; its
result is one line of JSON on its standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from elastream.core.learning import Learnt, Lesson
from elastream.core.ports import Ticket
from elastream.foresight.lessons import Worked, learnt_of, work_out
from elastream.foresight.mtm.problem import MigrationChain
from elastream.foresight.values_file import read_values, write_values
from elastream.model.errors import ElastreamError
from elastream.model.observation import TaskId

_NICE: Final = 10
_POLL_S: Final = 0.2
_VALUES: Final = "values.parquet"


def learn(lesson: Lesson, folder: Path | None, *, ticket: Ticket) -> Learnt:
    """Compute a lesson in another process; values are kept in ``folder``, if one is given."""
    with tempfile.TemporaryDirectory(prefix="elastream-lesson-") as name:
        return _learn(lesson, (folder or Path(name)) / _VALUES, Path(name), ticket)


def _learn(lesson: Lesson, values: Path, folder: Path, ticket: Ticket) -> Learnt:
    lesson_path, output_path, error_path = (
        folder / name for name in ("lesson", "output", "errors")
    )
    lesson_path.write_text(json.dumps(asdict(lesson)))
    with (
        lesson_path.open("rb") as source,
        output_path.open("wb") as output,
        error_path.open("wb") as errors,
    ):
        process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-m", __name__, str(values)],
            stdin=source,
            stdout=output,
            stderr=errors,
        )
        try:
            while process.poll() is None:
                ticket.wait(_POLL_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode:
        lines = error_path.read_text(errors="replace").strip().splitlines()
        why = lines[-1] if lines else "no error message"
        raise ElastreamError(f"the lesson ended with code {process.returncode}: {why}")
    return _learnt(json.loads(output_path.read_text()), values)


def _learnt(fields: dict[str, Any], values: Path) -> Learnt:
    worked = Worked(
        read_values(values) if fields["valued"] else None,
        fields["reason"],
        None if fields["chain"] is None else MigrationChain.of(**fields["chain"]),
        fields["ahead_percent"],
        fields["single_percent"],
    )
    return learnt_of(worked)


def _lesson(fields: dict[str, Any]) -> Lesson:
    return Lesson(
        tasks=tuple(TaskId(*task) for task in fields["tasks"]),
        work=tuple(fields["work"]),
        state=tuple(fields["state"]),
        tau=fields["tau"],
        sizes=tuple(fields["sizes"]),
        contiguous=fields["contiguous"],
        planner=fields["planner"],
    )


def _main(values: Path) -> None:
    os.nice(_NICE)
    worked = work_out(_lesson(json.load(sys.stdin)))
    if worked.values is not None:
        write_values(values, worked.values)
    print(
        json.dumps(
            {
                "valued": worked.values is not None,
                "reason": worked.reason,
                "chain": None if worked.chain is None else asdict(worked.chain),
                "ahead_percent": worked.ahead_percent,
                "single_percent": worked.single_percent,
            }
        )
    )


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
