"""A program run as Python itself would run it: its arguments, its ``__main__``, its end.

``python app.py a b`` and :func:`run_program` differ in nothing that a program can see but for the
modules that are loaded already. What ends it is what ends it under Python:

===========================  ======================================================================
it returns                   0
``sys.exit(code)``           the code; a text goes to standard error, and the code is 1
an exception nobody caught   its traceback by ``sys.excepthook``, without frames of ours; 1
Ctrl-C nobody caught         the same traceback, then the process ends by SIGINT (130 in a shell),
                             so that a shell script around it ends too
===========================  ======================================================================

Threads of the program that are not daemons are awaited, as Python does before it ends.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType

from elastream.model.errors import ProblemError

__all__ = ["Program", "run_program"]

_MAIN = "__main__"


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


def run_program(program: Program, at_end: Callable[[], None] = lambda: None) -> int:
    """Run it, and return its exit code; ``at_end`` is called whatever happened.

    A ``KeyboardInterrupt`` that the program did not catch is raised again once it has been shown.
    The process stays the program's: what it has left for ``atexit`` finds its ``__main__``.
    """
    interrupt: KeyboardInterrupt | None = None
    try:
        try:
            _execute(program)
            code = 0
        except SystemExit as end:
            code = _code(end.code)
        except KeyboardInterrupt as error:
            _show(error)
            interrupt, code = error, 1
        except BaseException as error:
            _show(error)
            code = 1
        _await_threads()
    finally:
        at_end()
    if interrupt is not None:
        sys.excepthook = lambda *_: None  # it has been shown; Python ends by the signal
        raise interrupt
    return code


def _execute(program: Program) -> None:
    """Let the process look like one that Python has started the program in, and do what it says."""
    module = ModuleType(_MAIN)
    module.__dict__.update(__file__=program.file, __builtins__=builtins, __cached__=None)
    module.__loader__ = SourceFileLoader(_MAIN, program.file)
    sys.modules[_MAIN] = module
    sys.argv = [program.file, *program.arguments]
    if not sys.flags.safe_path:
        sys.path[0] = program.folder
    with io.open_code(program.file) as file:
        source = file.read()
    code = compile(source, program.file, "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 - to run it is what we are for


def _code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def _await_threads() -> None:
    """Wait for the threads that Python would wait for, in which queries may still run."""
    main = threading.main_thread()
    while others := [each for each in threading.enumerate() if not (each.daemon or each is main)]:
        for thread in others:
            thread.join()


def _show(error: BaseException) -> None:
    error.__traceback__ = _own_part(error.__traceback__)
    sys.excepthook(type(error), error, error.__traceback__)


def _own_part(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from where the program begins."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace
