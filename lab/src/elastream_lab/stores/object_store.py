"""Object storage for the checkpoints of a run: server, link and what Spark needs to know.

A checkpoint has two names: what Spark calls it, ``s3a://…``, and the folder that the server keeps
it in, where a benchmark looks on without asking anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elastream_lab.stores.installation import StoreParts
from elastream_lab.stores.narrow_link import (
    narrow_link,
    passed_between,
    peak_bytes_per_s,
    read_samples,
)
from elastream_lab.stores.requests import read_requests
from elastream_lab.stores.server import Account, S3Server, s3_server

_BUCKET: Final = "checkpoints"
_S3A: Final = "spark.hadoop.fs.s3a"


@dataclass(frozen=True, slots=True)
class Traffic:
    """What went between Spark and the store during some time."""

    requests: int
    bytes_up: int
    bytes_down: int
    peak_bytes_per_s: float
    """The most in one direction, over a second."""


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A store that runs."""

    parts: StoreParts
    server: S3Server
    link: int
    """Port of the link to it."""
    samples: Path
    """What the link has passed on."""

    def path(self, name: str) -> Path:
        """Return the folder in which the server keeps a checkpoint."""
        return self.server.root / _BUCKET / name

    def uri(self, name: str) -> str:
        """Return what Spark calls a checkpoint."""
        return f"s3a://{_BUCKET}/{name}"

    def settings(self, *, linked: bool = True) -> dict[str, str]:
        """Return the settings of a session that goes to the store, by the link or past it."""
        port = self.link if linked else self.server.port
        return s3a_settings(self.parts, port, self.server.owner)

    def traffic(self, begin_ms: float, end_ms: float) -> Traffic:
        """Return what went between two moments, in milliseconds since the epoch."""
        asked = read_requests(self.server.log)
        samples = [s for s in read_samples(self.samples) if begin_ms <= s.at_ms <= end_ms]
        up, down = passed_between(samples, begin_ms, end_ms)
        return Traffic(
            requests=sum(begin_ms <= request.at_ms <= end_ms for request in asked),
            bytes_up=up,
            bytes_down=down,
            peak_bytes_per_s=peak_bytes_per_s(samples),
        )


def s3a_settings(parts: StoreParts, port: int, account: Account) -> dict[str, str]:
    """Return what a Spark session needs to reach a server of this machine by S3A."""
    return {
        "spark.jars": ",".join(jar.as_uri() for jar in parts.jars),
        f"{_S3A}.endpoint": f"http://127.0.0.1:{port}",
        f"{_S3A}.endpoint.region": "us-east-1",
        f"{_S3A}.path.style.access": "true",
        f"{_S3A}.aws.credentials.provider": (
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
        ),
        f"{_S3A}.access.key": account.access,
        f"{_S3A}.secret.key": account.secret,
    }


@contextmanager
def object_store(
    parts: StoreParts, folder: Path, *, mb_per_s: float | None = None
) -> Iterator[ObjectStore]:
    """Start a server with an empty bucket and a link to it; ``mb_per_s`` each way, or unbounded."""
    samples = folder / "link.txt"
    rate = None if mb_per_s is None else 1e6 * mb_per_s
    folder.mkdir(parents=True, exist_ok=True)
    with s3_server(parts.server, folder) as server:
        server.add_bucket(_BUCKET)
        with narrow_link(server.port, samples, bytes_per_s=rate) as port:
            yield ObjectStore(parts, server, port, samples)
