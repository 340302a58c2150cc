"""A file system of its own for checkpoints, which can be full, read-only or frozen for a while.

An ext4 image in a file, mounted through a loop device: that needs root. Where it cannot be, the
checkpoints are in a plain folder, and faults of the store are left out; the report says so.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from elastream.model.errors import ElastreamError

_SIZE_BYTES: Final = 192 << 20
_BALLAST: Final = "ballast"
_TRIES: Final = 100


class SmallStore:
    """The mounted file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def faulty(self, kind: str) -> Iterator[None]:
        """Let the store be as a fault says for as long as the block takes."""
        begin, lift = {
            "full store": (self._fill, self._empty),
            "read-only store": (self._forbid, self._allow),
            "slow store": (self._freeze, self._thaw),
        }[kind]
        try:
            begin()
            yield
        finally:
            lift()

    def _fill(self) -> None:
        with (self.folder / _BALLAST).open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(1 << 20)):
                pass

    def _empty(self) -> None:
        (self.folder / _BALLAST).unlink(missing_ok=True)

    def _forbid(self) -> None:
        """Make it read-only; while a file is open for writing that is refused, so try again."""
        for _ in range(_TRIES):
            if _run("mount", "-o", "remount,ro", str(self.folder)) is None:
                return
            time.sleep(0.05)
        raise ElastreamError("the store was written all the time and could not be made read-only")

    def _allow(self) -> None:
        _run("mount", "-o", "remount,rw", str(self.folder))

    def _freeze(self) -> None:
        _run("fsfreeze", "-f", str(self.folder))

    def _thaw(self) -> None:
        _run("fsfreeze", "-u", str(self.folder))


@contextmanager
def mounted_store(folder: Path) -> Iterator[SmallStore | None]:
    """Mount a small file system at the folder for as long as the block takes, where that can be."""
    image = folder.with_name(f"{folder.name}.ext4")
    if os.geteuid() != 0:
        yield None
        return
    with image.open("wb") as file:
        file.truncate(_SIZE_BYTES)
    mount = ("mount", "-o", "loop,noatime", str(image), str(folder))
    if _run("mkfs.ext4", "-q", "-m", "0", str(image)) or _run(*mount):
        image.unlink()
        yield None
        return
    try:
        yield SmallStore(folder)
    finally:
        _unmount(folder)
        image.unlink(missing_ok=True)


def _unmount(folder: Path) -> None:
    for _ in range(_TRIES):
        why = _run("umount", str(folder))
        if why is None:
            return
        time.sleep(0.1)
    raise ElastreamError(f"{folder} cannot be unmounted: {why}")


def _run(*command: str) -> str | None:
    """Run a command; return why it failed, ``None`` where it did not."""
    try:
        done = subprocess.run(  # noqa: S603 - of this machine, with a folder of our own
            command, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip() or f"code {done.returncode}"
