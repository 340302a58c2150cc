"""One damaged input, read as elastream reads it, within bounds; what was wrong about how it ended.

The command runs in this process: a start of Python for each would allow a hundredth of them. Its
time is bounded in seconds of the process's own CPU, which other work on the machine does not add
to; its memory by a limit of the process (:mod:`~elastream_lab.fuzz.reader`).
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from elastream.cli.exits import BAD_INPUT, INFEASIBLE
from elastream.cli.main import main
from elastream.handover.messages import from_members, members_of
from elastream.model.errors import ProblemError
from elastream_lab.fuzz.damage import damaged_bytes, damaged_json
from elastream_lab.fuzz.good_inputs import LOG, MESSAGES, PLANS

CPU_S: Final = 20.0
"""The most that one input may take."""


def read_one(kind: str, seed: str) -> tuple[bytes, str | None]:
    """Damage an input of the kind and read it; return it, and what is wrong, if anything is."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    return KINDS[kind](dice)


def read_good() -> None:
    """Read every input undamaged: what is loaded and compiled for them takes no time later."""
    plans = [(kind, json.dumps(each)) for kind in PLANS for each in PLANS[kind]]
    for kind, text in plans:
        with _file(text.encode()) as path:
            _expect(["plan", kind, str(path)])
    with _file(LOG.encode()) as path:
        trace = str(path.with_name("trace"))
        _expect(["log", str(path)])
        _expect(["trace", "from-log", str(path), "--out", trace])
        _expect(["trace", "chain", trace])
        _expect(["trace", "nodes", trace])
    for message in MESSAGES:
        from_members(message)


def _expect(arguments: list[str]) -> None:
    """Run a command whose input is good."""
    said = _Text()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(arguments)
    if code:
        raise AssertionError(f"{' '.join(arguments[:2])}: {said.getvalue()}")


def _plan(kind: str, dice: random.Random) -> tuple[bytes, str | None]:
    text = damaged_json(dice.choice(PLANS[kind]), dice)
    with _file(text) as path:
        return text, _wrong(["plan", kind, str(path)], quiet=True)


def _log(dice: random.Random) -> tuple[bytes, str | None]:
    lines = LOG.encode().splitlines(keepends=True)
    at = dice.randrange(len(lines))
    if dice.random() < 0.7:
        lines[at] = damaged_json(json.loads(lines[at]), dice) + b"\n"
    text = b"".join(lines)
    text = damaged_bytes(text, dice) if dice.random() < 0.4 else text
    with _file(text) as path:
        command = dice.choice((["log"], ["log", "--json"]))
        return text, _wrong([command[0], str(path), *command[1:]], quiet=False)


def _trace(dice: random.Random) -> tuple[bytes, str | None]:
    text = damaged_bytes(LOG.encode(), dice) if dice.random() < 0.5 else LOG.encode()
    with _file(text) as path:
        out = path.with_name("trace")
        wrong = _wrong(["trace", "from-log", str(path), "--out", str(out)], quiet=False)
        part = [file for file in sorted(out.rglob("*")) if file.is_file()] if out.exists() else []
        if wrong is None and part:
            file = dice.choice(part)
            before = file.read_bytes()
            is_json = file.suffix == ".json" and dice.random() < 0.7
            text = (
                damaged_json(json.loads(before), dice) if is_json else damaged_bytes(before, dice)
            )
            file.write_bytes(text)
            wrong = _wrong(["trace", dice.choice(("nodes", "chain")), str(out)], quiet=True)
        return text, wrong


def _message(dice: random.Random) -> tuple[bytes, str | None]:
    text = damaged_json(dice.choice(MESSAGES), dice)
    try:
        with _bounded():
            message = from_members(json.loads(text))
            if from_members(members_of(message)) != message:
                return text, "it is another message once it was written"
    except (ProblemError, json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        return text, None  # as whoever reads a line takes it
    except Exception as error:
        return text, f"{type(error).__name__}: {error}"
    return text, None


def _wrong(arguments: list[str], *, quiet: bool) -> str | None:
    """Run a command; return what is wrong about how it ended.

    ``quiet``: whether it shows either an answer or one line. What reads a log shows its lines as it
    reads them, and of lines that were torn on standard error.
    """
    out, err = _Text(), _Text()
    try:
        with _bounded(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    said, complained = out.getvalue(), err.getvalue()
    if code not in (0, BAD_INPUT, INFEASIBLE):
        return f"exit code {code}: {complained.strip()[:300]}"
    lines = complained.count("\n")
    if code == BAD_INPUT and ((said and quiet) or lines < 1 or (lines > 1 and quiet)):
        return f"bad input is not reported in one line: {said[:100]!r}, {complained[:300]!r}"
    if code != BAD_INPUT and not said and (quiet or not complained):
        return f"exit code {code}, and nothing was said"
    if code != BAD_INPUT and quiet and complained:
        return f"exit code {code}, and standard error has {complained[:300]!r}"
    return "the answer has a NaN" if "NaN" in said else None


class _Text(io.TextIOWrapper):
    """A standard stream that is kept; written as UTF-8, as a terminal would be."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="strict", write_through=True)

    def getvalue(self) -> str:
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined, no-any-return]


@contextmanager
def _bounded() -> Iterator[None]:
    """End what takes too long, and let a warning be an error."""

    def end(*_: Any) -> None:
        raise TimeoutError(f"it took more than {CPU_S:g} s of CPU")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _file(text: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="elastream-fuzz-") as folder:
        path = Path(folder) / "input"
        path.write_bytes(text)
        yield path


def _planned(kind: str) -> Callable[[random.Random], tuple[bytes, str | None]]:
    return lambda dice: _plan(kind, dice)


KINDS: Final[dict[str, Callable[[random.Random], tuple[bytes, str | None]]]] = {
    **{f"plan {kind}": _planned(kind) for kind in PLANS},
    "log": _log,
    "trace": _trace,
    "message": _message,
}
"""What is read, by name."""
