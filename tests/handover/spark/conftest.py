"""Live handovers are tried again where Spark has given up on a Python worker too soon.

Spark gives a Python worker ten seconds to connect, a limit that cannot be set, and a busy machine
may keep it from that.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

NOT_CONNECTED = "Python worker failed to connect back"
_TRIES = 3


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    """Call the test, up to three times in an empty folder while workers fail to connect."""
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    for left in reversed(range(_TRIES)):
        try:
            pyfuncitem.obj(**arguments)
        except Exception as error:
            if not left or not any(NOT_CONNECTED in str(each) for each in _causes(error)):
                raise
            if isinstance(folder := pyfuncitem.funcargs.get("tmp_path"), Path):
                _empty(folder)
        else:
            break
    return True


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
