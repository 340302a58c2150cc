"""The ``elastream`` command: one line for what went wrong, never a traceback."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from elastream.cli.exits import BAD_INPUT, BROKEN, INTERRUPTED
from elastream.launch.reporting import report
from elastream.model.errors import ElastreamError
from elastream.model.words import printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from typer import TyperException


_WRONG_PATH = frozenset({errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP})
"""Errors of the operating system about a path that the user gave."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    if sys.stdout is None:
        why = "send it to /dev/null if it shall not be read"
        return _fail(f"standard output is closed; {why}", BAD_INPUT)
    # Half a surrogate pair, as JSON may have it, or a table on a terminal of few characters.
    before = _on_unwritable("backslashreplace")
    code = _run(arguments)
    if callable(code):  # a program of the user: its output, its signals and its end are its own
        _on_unwritable(before)
        return code()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _silenced(INTERRUPTED)
    except OSError as error:
        return _unwritten(error)
    return code


def _on_unwritable(errors: str) -> str:
    """Set how standard output handles what it cannot encode; return the former handler."""
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return errors
    before = sys.stdout.errors or "strict"
    sys.stdout.reconfigure(errors=errors)
    return before


def _unwritten(error: OSError) -> int:
    _fail(f"standard output cannot be written: {error.strerror or error}", BROKEN)
    return _silenced(BROKEN)


def _silenced(code: int) -> int:
    """Send the rest of standard output nowhere, as it takes nothing more; return the code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _run(arguments: list[str] | None) -> int | Callable[[], int]:
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if given[:1] == ["--version"]:
            from importlib.metadata import version

            print(f"elastream {version('elastream')}")
            return 0
        if given[:1] in ([], ["--help"]):
            from elastream.cli.command_table import root_help

            print(root_help(_loaded_summary), file=sys.stdout if given else sys.stderr)
            return 0 if given else BAD_INPUT
        return _command(given)
    except ElastreamError as error:
        return _fail(str(error), BAD_INPUT)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has left, such as `| head`
        return _silenced(INTERRUPTED)
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
            return _unwritten(error)
        if os.environ.get("ELASTREAM_DEBUG"):
            raise
        return _broken(error)


def _loaded_summary(entry: EntryPoint) -> str | None:
    from elastream.cli.commands import loaded_summary  # imports Typer

    return loaded_summary(entry)


def _command(arguments: list[str]) -> int | Callable[[], int]:
    """Run the command that the arguments name; what it needs is imported only now."""
    import typer

    from elastream.cli.commands import root
    from elastream.cli.page import with_port

    try:
        code = root()(args=with_port(arguments), prog_name="elastream", standalone_mode=False)
    except typer.TyperException as error:
        return _misused(_usage(error))
    except typer.Abort:
        return _fail("interrupted", INTERRUPTED)
    return code if isinstance(code, int) or callable(code) else 0


def _broken(error: Exception) -> int:
    """Print one line: a missing extra, a path that cannot be used, else a fault of our own."""
    from elastream.cli.quiet import text_of
    from elastream.extras import what_to_install

    missing = what_to_install(error) if isinstance(error, ImportError) else None
    if missing is not None:
        return _fail(missing, BAD_INPUT)
    if isinstance(error, OSError) and error.errno in _WRONG_PATH and error.filename is not None:
        return _fail(f"{error.filename}: {error.strerror}", BAD_INPUT)
    about = f"{type(error).__name__}: {text_of(error)}".splitlines()[0]
    return _fail(f"a fault of elastream itself: {about} (ELASTREAM_DEBUG=1 shows where)", BROKEN)


def _usage(error: TyperException) -> str:
    """Return what is wrong with the command line, the option's name included where it is known."""
    described = getattr(error, "format_message", None)
    return str(described()) if callable(described) else str(error)


def _misused(message: str) -> int:
    """Say what is wrong with the command line; without any argument that is the help."""
    if "\n\n" not in message:
        return _fail(message, BAD_INPUT)
    print("\n".join(map(printable, message.split("\n"))), file=sys.stderr)
    return BAD_INPUT


def _fail(line: str, code: int) -> int:
    report(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
