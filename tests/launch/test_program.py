"""A program that touches no Spark is under ``elastream run`` what it is under Python."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.launch.programs import by_elastream, by_python, written

PROGRAMS = {
    "its arguments": "import sys; print(sys.argv[1:])",
    "its name and place": "import sys; print(sys.argv[0], __name__, __file__, sys.path[0])",
    "its globals": "print(sorted(globals()), __annotations__, __loader__.path)",
    "its code": "print((lambda: 0).__code__.co_filename)",
    "its main module": (
        "import sys\nvalue = 3\nprint(sys.modules['__main__'].value, __doc__, __spec__)"
    ),
    "its docstring": "'''what it is'''\nprint(__doc__)",
    "a module next to it": "import beside; print(beside.value)",
    "its encoding": "# coding: latin-1\nprint(len('é'))",
    "a code": "import sys; sys.exit(3)",
    "no code": "import sys; sys.exit()",
    "a negative code": "import sys; sys.exit(-1)",
    "a text for a code": "import sys; sys.exit('no more')",
    "an exception": "def fails():\n    raise ValueError('of its own')\n\nfails()",
    "a syntax error": "x = (",
    "an exception that others led to": (
        "def fails():\n    try:\n        1 / 0\n    except ZeroDivisionError as error:\n"
        "        raise ExceptionGroup('some', [ValueError('one'), error]) from error\n\nfails()"
    ),
    "an exception in PySpark": "from pyspark import SparkContext\n\nSparkContext(gateway=5)",
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
ENDINGS = {
    "an idle pool": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(2)\nprint(pool.submit(lambda: 41 + 1).result())"
    ),
    "a pool at work": (
        "import threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(1)\n"
        "pool.submit(lambda: (threading.Event().wait(0.2), print('one')))\n"
        "pool.submit(print, 'two')\nprint('before')"
    ),
    "a pool, a thread and last words": (
        "import atexit, threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "atexit.register(print, 'last')\natexit.register(print, 'first of the last')\n"
        "def after():\n    threading.main_thread().join()\n    print('after')\n\n"
        "threading.Thread(target=after).start()\n"
        "ThreadPoolExecutor(1).submit(print, 'pool').result()\nprint('before')"
    ),
    "a thread that starts another": (
        "import threading\n"
        "def after():\n    threading.main_thread().join()\n"
        "    threading.Thread(target=print, args=('another',)).start()\n\n"
        "threading.Thread(target=after).start()"
    ),
    "a daemon and a thread that fails": (
        "import threading\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "threading.Thread(target=lambda: 1 / 0, name='fails').start()"
    ),
    "its threads": "import threading\nprint(threading.enumerate()[1:], threading.active_count())",
    "last words that fail": (
        "import atexit\natexit.register(print, 'last')\natexit.register(int, 'x')"
    ),
    "last words on an exception": (
        "import atexit, sys, traceback\n"
        "atexit.register(lambda: traceback.print_tb(sys.last_traceback))\n"
        "atexit.register(lambda: print(sys.excepthook, repr(sys.last_value)))\n1 / 0"
    ),
    "an object that outlives it": (
        "class Held:\n    def __del__(self):\n        print('gone')\n\nheld = Held()"
    ),
    "processes": (
        "import multiprocessing, os\n"
        "def works():\n    print('child', __name__, flush=True)\n\n"
        "if __name__ == '__main__':\n"
        "    for how in ('fork', 'spawn', 'forkserver'):\n"
        "        child = multiprocessing.get_context(how).Process(target=works)\n"
        "        child.start()\n        child.join()\n        print(child.exitcode, flush=True)"
    ),
    "a process that is left": (
        "import atexit, multiprocessing, time\natexit.register(print, 'last')\n"
        "def works():\n    time.sleep(0.2)\n    print('child', flush=True)\n\n"
        "multiprocessing.get_context('fork').Process(target=works).start()\n"
        "print('before', flush=True)"
    ),
    "a daemon process that is left": (
        "import multiprocessing, signal\n"
        "multiprocessing.get_context('fork').Process(target=signal.pause, daemon=True).start()\n"
        "print('before')"
    ),
    "a pool of processes": (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "if __name__ == '__main__':\n    pool = ProcessPoolExecutor(1)\n"
        "    print(pool.submit(abs, -3).result())"
    ),
    "a fork": (
        "import atexit, os\natexit.register(lambda: print('last of', who))\n"
        "child = os.fork()\nwho = 'parent' if child else 'child'\n"
        "if child:\n    print(os.waitpid(child, 0)[1], flush=True)"
    ),
    "asyncio": (
        "import asyncio\n"
        "async def main():\n    print(await asyncio.to_thread(abs, -3))\n    1 / 0\n\n"
        "asyncio.run(main())"
    ),
    "a loop of asyncio that is left": (
        "import asyncio\nloop = asyncio.new_event_loop()\n"
        "print(loop.run_until_complete(loop.run_in_executor(None, abs, -3)))"
    ),
    "Ctrl-C in asyncio": (
        "import asyncio, os, signal\n"
        "async def main():\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "    await asyncio.sleep(60)\n\n"
        "asyncio.run(main())"
    ),
    "a hook that fails": (
        "import sys\ndef hook(kind, error, trace):\n    print('hook')\n    raise KeyError(kind)\n\n"
        "sys.excepthook = hook\ndef fails():\n    1 / 0\n\nfails()"
    ),
    "a hook that exits with a text": (
        "import sys\ndef hook(*_):\n    raise SystemExit('no more')\n\nsys.excepthook = hook\n1 / 0"
    ),
    "a hook that is interrupted": (
        "import sys\ndef hook(*_):\n    raise KeyboardInterrupt\n\nsys.excepthook = hook\n1 / 0"
    ),
    "SIGTERM and an idle pool": (
        "import atexit, os, signal\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "atexit.register(print, 'last')\npool = ThreadPoolExecutor(1)\n"
        "print(pool.submit(abs, -3).result(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\nsignal.pause()"
    ),
    "SIGTERM while a thread goes on": (
        "import os, signal, threading\n"
        "def after():\n    threading.main_thread().join()\n    print('after', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n    threading.Event().wait()\n\n"
        "threading.Thread(target=after).start()"
    ),
    "asyncio that is left with a thread at work": (
        "import asyncio, threading\n"
        "async def main():\n"
        "    work = lambda: (threading.Event().wait(0.2), print('done'))\n"
        "    asyncio.get_running_loop().run_in_executor(None, work)\n    raise SystemExit(3)\n\n"
        "asyncio.run(main())"
    ),
    "an exit in a thread": (
        "import sys, threading\nthreading.Thread(target=lambda: sys.exit(4)).start()"
    ),
    "an interrupt of its own": ("import _thread, time\n_thread.interrupt_main()\ntime.sleep(60)"),
    "a hook that exits": "import sys\nsys.excepthook = lambda *_: sys.exit(7)\n1 / 0",
    "no hook": "import sys\ndel sys.excepthook\n1 / 0",
    "a hook and Ctrl-C": (
        "import os, signal, sys, time\n"
        "sys.excepthook = lambda kind, error, trace: print(kind, trace.tb_frame.f_code.co_name)\n"
        "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)"
    ),
    "at once": "import os\nprint('lost')\nprint('kept', flush=True)\nos._exit(5)",
    "at once from a thread": (
        "import os, threading\nthreading.Thread(target=os._exit, args=(6,)).start()\n"
        "threading.Event().wait(60)"
    ),
    "at once, as its last word": "import atexit, os\natexit.register(os._exit, 9)",
    "Ctrl-C while a thread goes on": (
        # again after a while: Python misses one that comes just before it waits for a thread
        "import os, signal, threading, time\n"
        "def after():\n    threading.main_thread().join()\n    time.sleep(0.5)\n"
        "    while True:\n        os.kill(os.getpid(), signal.SIGINT)\n        time.sleep(30)\n\n"
        "import atexit\natexit.register(print, 'last')\n"
        "threading.Thread(target=after).start()"
    ),
    "Ctrl-C with last words": (
        "import atexit, os, signal, time\natexit.register(print, 'last')\n"
        "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)"
    ),
    "Ctrl-C and an idle pool": (
        "import os, signal, time\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(1)\npool.submit(print, 'done').result()\n"
        "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)"
    ),
    "SystemExit from a handler": (
        "import os, signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(11))\n"
        "os.kill(os.getpid(), signal.SIGTERM)\nsignal.pause()"
    ),
    "a kill": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "a code that is an object": "import sys\nsys.exit(['no', 'more'])",
    "a code that is too big": "import sys\nsys.exit(2**70)",
    "an exit with threads": (
        "import sys, threading\n"
        "def after():\n    threading.main_thread().join()\n    print('after')\n\n"
        "threading.Thread(target=after).start()\nsys.exit('no more')"
    ),
}


IN_EVERY_RUN = {
    *("its arguments", "its globals", "its main module", "a module next to it", "its encoding"),
    *("a text for a code", "an exception", "a syntax error", "an exception in PySpark"),
    *("its own hook", "last words that ask", "a thread that goes on", "Ctrl-C", "a polite kill"),
    *("a pool, a thread and last words", "last words that fail", "an object that outlives it"),
    *("processes", "a fork", "asyncio", "a hook that fails", "an exit in a thread", "no hook"),
    *("SIGTERM and an idle pool", "at once", "Ctrl-C while a thread goes on", "a kill"),
}
"""The others run in make test-slow; each takes most of a second."""


def in_suite(what: str) -> object:
    return pytest.param(what, marks=() if what in IN_EVERY_RUN else pytest.mark.slow, id=what)


def test_the_programs_of_every_run_exist() -> None:
    assert PROGRAMS.keys() | ENDINGS.keys() >= IN_EVERY_RUN


@pytest.mark.parametrize("what", [in_suite(what) for what in PROGRAMS])
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


@pytest.mark.parametrize("what", [in_suite(what) for what in ENDINGS])
def test_a_program_ends_as_under_python(what: str, tmp_path: Path) -> None:
    program = written(tmp_path, ENDINGS[what])
    ours, pythons = by_elastream(program, together=True), by_python(program, together=True)
    assert (ours.returncode, ours.stdout) == (pythons.returncode, pythons.stdout)


@pytest.mark.parametrize("name", ["app.py", "./app.py", "folder/../app.py", "folder/link.py"])
def test_a_program_with_a_relative_path_has_the_absolute_one_of_python(
    name: str, tmp_path: Path
) -> None:
    text = (
        "import os, sys\nos.chdir('/')\nprint(__file__, sys.argv[0], sys.path[0])\n"
        "print(__loader__.path)\ndef fails():\n    1 / 0\n\nfails()"
    )
    program = written(tmp_path, text)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link.py").symlink_to(program)
    ours, pythons = by_elastream(name, folder=tmp_path), by_python(name, folder=tmp_path)
    assert ours.stdout.startswith(f"{tmp_path}/")
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
