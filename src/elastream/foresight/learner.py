"""The learner: lessons computed in a separate process, at low priority.

Values take seconds to a minute of one core. In the driver's own process they would delay the
listener threads. So ``python -m elastream.foresight.learner`` reads a lesson from its standard
input and writes the result to its standard output, pickled.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from elastream.core.learning import Learnt, Lesson
from elastream.core.ports import Ticket
from elastream.foresight.lessons import learnt_of, work_out
from elastream.foresight.values_file import write_values
from elastream.model.errors import ElastreamError

_NICE: Final = 10
_POLL_S: Final = 0.2
_VALUES: Final = "values.parquet"


def learn(lesson: Lesson, folder: Path | None, *, ticket: Ticket) -> Learnt:
    """Compute a lesson in another process; values are kept in ``folder``, if one is given."""
    kept = [] if folder is None else [str(folder / _VALUES)]
    with (
        tempfile.TemporaryFile() as source,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        pickle.dump(lesson, source)
        source.seek(0)
        process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-m", __name__, *kept], stdin=source, stdout=output, stderr=errors
        )
        try:
            while process.poll() is None:
                ticket.wait(_POLL_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            why = lines[-1] if lines else "no error message"
            raise ElastreamError(f"the lesson ended with code {process.returncode}: {why}")
        output.seek(0)
        return learnt_of(pickle.load(output))  # noqa: S301 - of this very program


def _main(kept: list[str]) -> None:
    os.nice(_NICE)
    worked = work_out(pickle.load(sys.stdin.buffer))  # noqa: S301 - of this very program
    if worked.values is not None:
        for path in kept:
            write_values(Path(path), worked.values)
    pickle.dump(worked, sys.stdout.buffer)


if __name__ == "__main__":
    _main(sys.argv[1:])
