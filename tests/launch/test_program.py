"""A program that touches no Spark is under ``elastream run`` what it is under Python."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.launch.programs import by_elastream, by_python, written

PROGRAMS = {
    "its arguments": "import sys; print(sys.argv[1:])",
    "its name and place": "import sys; print(sys.argv[0], __name__, __file__, sys.path[0])",
    "its main module": (
        "import sys\nvalue = 3\nprint(sys.modules['__main__'].value, __doc__, __spec__)"
    ),
    "its docstring": "'''what it is'''\nprint(__doc__)",
    "a module beside it": "import beside; print(beside.value)",
    "its encoding": "# coding: latin-1\nprint(len('é'))",
    "a code": "import sys; sys.exit(3)",
    "no code": "import sys; sys.exit()",
    "a negative code": "import sys; sys.exit(-1)",
    "a text for a code": "import sys; sys.exit('no more')",
    "an exception": "def fails():\n    raise ValueError('of its own')\n\nfails()",
    "a syntax error": "x = (",
    "its own hook": (
        "import sys\nsys.excepthook = lambda kind, *_: print('seen', kind.__name__)\n1 / 0"
    ),
    "its own last words": "import atexit\natexit.register(print, 'last', __name__)",
    "last words that ask": (
        "import atexit, sys\natexit.register(lambda: print(sys.modules['__main__'].x))\nx = 5"
    ),
    "a thread that goes on": (
        "import threading\nheld = threading.Event()\n"
        "threading.Thread(target=lambda: held.wait() and print('after')).start()\n"
        "threading.Timer(0.2, held.set).start()\nprint('before')"
    ),
    "Ctrl-C": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)",
    "Ctrl-C that it catches": (
        "import os, signal, time\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print('caught')"
    ),
    "a polite kill": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nsignal.pause()",
    "a signal of its own": (
        "import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: print('heard'))\n"
        "os.kill(os.getpid(), signal.SIGTERM)"
    ),
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_program_is_what_it_is_under_python(what: str, tmp_path: Path) -> None:
    program = written(tmp_path, PROGRAMS[what])
    written(tmp_path, "value = 7", "beside.py")
    arguments = ("one", "--page", "--", "--max-executors", "x y", "--help")
    ours, pythons = by_elastream(program, *arguments), by_python(program, *arguments)
    assert (ours.returncode, ours.stdout, ours.stderr) == (
        pythons.returncode,
        pythons.stdout,
        pythons.stderr,
    )


def test_ctrl_c_ends_the_process_by_its_signal(tmp_path: Path) -> None:
    ran = by_elastream(written(tmp_path, PROGRAMS["Ctrl-C"]))
    assert ran.returncode == -signal.SIGINT
    assert ran.stderr.startswith("Traceback")
    assert "elastream" not in ran.stderr


@pytest.mark.parametrize(
    ("app", "says"),
    [
        ("none.py", "does not exist; give a program, a Python file"),
        (".", "is a folder; give a program, a Python file"),
    ],
)
def test_a_program_that_is_none_is_one_line(app: str, says: str, tmp_path: Path) -> None:
    ran = by_elastream(tmp_path / app)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"elastream: {tmp_path / app}: {says}\n"
