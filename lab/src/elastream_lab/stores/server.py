"""An S3 server on this machine, with accounts and buckets of its own.

It listens on loopback, and its keys are made up for each. What is in a bucket lies as plain files
below :attr:`S3Server.root`: who looks there asks the server nothing, and what is copied there is
copied at the speed of the disk.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elastream.model.errors import SparkError

_LOOPBACK: Final = "127.0.0.1"
_START_S: Final = 60.0
_END_S: Final = 10.0
_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Account:
    """Who asks, and how they show it."""

    access: str
    secret: str

    @staticmethod
    def new(access: str) -> Account:
        """Return an account with a secret that no one has had."""
        return Account(access, secrets.token_hex(20))


@dataclass(frozen=True, slots=True)
class S3Server:
    """A server that runs."""

    program: Path
    folder: Path
    port: int
    owner: Account
    """Who may do everything."""

    @property
    def root(self) -> Path:
        """The folder whose folders are the buckets."""
        return self.folder / "buckets"

    @property
    def log(self) -> Path:
        """A line for every request."""
        return self.folder / "requests.log"

    def add_bucket(
        self, name: str, owner: Account | None = None, reader: Account | None = None
    ) -> Path:
        """Make a bucket, and return where its objects lie; a ``reader`` may read and not write."""
        named = ("--owner", (owner or self.owner).access, "--bucket", name)
        read = () if reader is None else ("--grant-read", reader.access)
        access = () if reader is None else ("--object-ownership", "BucketOwnerPreferred")
        self._administer("create-bucket", *named, *read, *access)
        return self.root / name

    def add_account(self, access: str) -> Account:
        """Return a new account that owns nothing."""
        made = Account.new(access)
        key = ("--access", made.access, "--secret", made.secret)
        self._administer("create-user", *key, "--role", "user")
        return made

    def give_bucket(self, name: str, owner: Account) -> None:
        """Give a bucket to somebody else; who had it before may neither read nor write."""
        self._administer("change-bucket-owner", "--bucket", name, "--owner", owner.access)

    def _administer(self, *arguments: str) -> None:
        known = {
            "ADMIN_ACCESS_KEY_ID": self.owner.access,
            "ADMIN_SECRET_ACCESS_KEY": self.owner.secret,
            "ADMIN_ENDPOINT_URL": f"http://{_LOOPBACK}:{self.port}",
        }
        ended = subprocess.run(  # noqa: S603 - the server's own program
            [self.program, "admin", *arguments],
            env={**os.environ, **known},
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise SparkError(f"the S3 server refuses: {(ended.stderr or ended.stdout).strip()}")


@contextmanager
def s3_server(program: Path, folder: Path) -> Iterator[S3Server]:
    """Start a server whose files are in the folder, give it, and end it."""
    server = S3Server(program, folder, _free_port(), Account.new("elastream"))
    server.root.mkdir(parents=True, exist_ok=True)
    (folder / "accounts").mkdir(exist_ok=True)
    known = {
        "ROOT_ACCESS_KEY_ID": server.owner.access,
        "ROOT_SECRET_ACCESS_KEY": server.owner.secret,
    }
    command = [program, "--port", f"{_LOOPBACK}:{server.port}", "--quiet"]
    command += ["--access-log", server.log, "--iam-dir", folder / "accounts"]
    command += ["--iam-cache-disable", "posix", server.root]
    with (
        (folder / "server.log").open("ab") as output,
        subprocess.Popen(  # noqa: S603 - what the user installed
            [str(word) for word in command],
            env={**os.environ, **known},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for whoever started it to handle
        ) as process,
    ):
        try:
            _await(server, process)
            yield server
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _await(server: S3Server, process: subprocess.Popen[bytes]) -> None:
    """Return when the server listens."""
    deadline = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection((_LOOPBACK, server.port), timeout=1).close()
        except OSError:
            said = (server.folder / "server.log").read_text(errors="replace").strip()
            if process.poll() is not None or time.monotonic() > deadline:
                why = said.splitlines()[-1] if said else "it said nothing"
                raise SparkError(f"the S3 server did not start: {why}") from None
            time.sleep(_POLL_S)
        else:
            return


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_LOOPBACK, 0))
        return int(listener.getsockname()[1])
