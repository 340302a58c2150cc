"""A program run as Python itself would run it: its arguments, its ``__main__``, its end.

A program can see no difference to ``python app.py a b`` except the modules that are loaded already.
Whatever ends it is raised through to the interpreter, which sets the exit code, waits for threads
and calls what is registered with ``atexit``. Two things are added: our frames are taken out of the
traceback of an uncaught exception, and ``at_end`` is called after the program's threads have ended.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import io
import operator
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from elastream.model.errors import ProblemError

_MAIN = "__main__"
_OURS = str(Path(__file__).parent) + os.sep
"""The code between the interpreter and a program, and between a program and PySpark."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that can be run; refused where it cannot be read."""

    file: str
    """As it was given: ``sys.argv[0]``."""
    arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        path = Path(self.file)
        if not path.exists():
            raise ProblemError(self.file, "does not exist; give a program, a Python file")
        if path.is_dir():
            raise ProblemError(self.file, "is a folder; give a program, a Python file")
        if not os.access(path, os.R_OK):
            raise ProblemError(self.file, "cannot be read")

    @property
    def folder(self) -> str:
        """Where its own modules are: ``sys.path[0]``."""
        return str(Path(self.file).resolve().parent)

    @property
    def path(self) -> str:
        """``__file__``: absolute, but not normalized, as Python makes it."""
        return os.path.join(os.getcwd(), self.file)  # noqa: PTH109, PTH118 - Path would normalize


def run_program(program: Program, at_end: Callable[[], None]) -> None:
    """Run it, and raise what ended it; ``sys.excepthook`` then shows it without frames of ours.

    ``at_end`` may be called twice. The first call comes when the interpreter ends, after the
    program's non-daemon threads and before its ``atexit`` functions, as in 3.12 and later no thread
    can be started any more by then; the second comes after them, in case Ctrl-C has ended the wait
    for the threads. The process stays the program's: what it has left for ``atexit`` finds its
    ``__main__``.
    """
    atexit.register(at_end)
    _after_threads(at_end)
    try:
        _execute(program)
    except SystemExit:
        raise
    except BaseException:
        sys.excepthook = functools.partial(_show, getattr(sys, "excepthook", _show_without_hook))
        raise


def run_to_end(program: Program, at_end: Callable[[], None]) -> None:
    """Run it, and return when its threads have ended, with whatever exit code it would have had.

    Only ``KeyboardInterrupt`` is raised.
    """
    try:
        run_program(program, at_end)
    except KeyboardInterrupt:
        raise
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    threading._shutdown()  # type: ignore[attr-defined]


def _execute(program: Program) -> None:
    """Let the process look like one that Python has started the program in, and do what it says."""
    path = program.path
    module = ModuleType(_MAIN)
    module.__dict__.update(__file__=path, __builtins__=builtins, __cached__=None)
    if sys.version_info < (3, 14):
        module.__annotations__ = {}
    module.__loader__ = SourceFileLoader(_MAIN, path)
    sys.modules[_MAIN] = module
    sys.argv = [program.file, *program.arguments]
    if not sys.flags.safe_path:
        sys.path[0] = program.folder
    with io.open_code(path) as file:
        source = file.read()
    code = compile(source, path, "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 - to run it is what we are for


def _after_threads(call: Callable[[], None]) -> None:
    """Let the interpreter call it as soon as the program's non-daemon threads have ended.

    ``threading._shutdown`` is what the interpreter waits with. It returns nothing, so ``any`` goes
    on to the call. There is no function of ours around it, because the traceback of a Ctrl-C that
    ends the wait would show its frame.
    """
    wait = threading._shutdown  # type: ignore[attr-defined]
    both = functools.partial(any, map(operator.call, (wait, call)))
    threading._shutdown = both  # type: ignore[attr-defined]


def _show(
    hook: Callable[[type[BaseException], BaseException, TracebackType | None], Any],
    kind: type[BaseException],
    error: BaseException,
    _trace: TracebackType | None,
) -> None:
    """Show what ended the program as the interpreter does, without frames of ours."""
    sys.excepthook = hook
    _take_ours_out(error)
    sys.last_traceback = error.__traceback__
    try:
        hook(kind, error, error.__traceback__)
    except SystemExit:
        raise
    except BaseException as failed:  # the interpreter's own words; it would show our frame
        _take_ours_out(failed)
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(failed), failed, failed.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(kind, error, error.__traceback__)


def _show_without_hook(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show what ended a program that has deleted ``sys.excepthook``."""
    print("sys.excepthook is missing", file=sys.stderr)
    sys.__excepthook__(kind, error, trace)


def _take_ours_out(error: BaseException) -> None:
    """Take our frames out of the tracebacks of an exception and of those that led to it."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _without_ours(each.__traceback__)
        todo += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            todo += each.exceptions


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from where the program begins, without our frames further down."""
    frames = []
    while trace is not None:
        frames.append(trace)
        if trace.tb_frame.f_code is _execute.__code__:
            frames.clear()
        trace = trace.tb_next
    own = [each for each in frames if not each.tb_frame.f_code.co_filename.startswith(_OURS)]
    for each, following in zip(own, [*own[1:], None], strict=False):
        each.tb_next = following
    return own[0] if own else None
