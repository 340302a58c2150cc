"""Posts of a user's file for the study: in the order of their times, at a rate of the study's."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elastream_lab.harness.recorded_file import RecordedFile, expect_columns, record_file
from elastream_lab.harness.recording import Recording


@dataclass(frozen=True, slots=True)
class UserPosts:
    """What is replayed."""

    name: str
    recording: Recording

    @property
    def description(self) -> str:
        """What they are, for the figures."""
        return f"{self.recording.rows:,} posts of {self.name}, in turn, at a steady rate"


@contextmanager
def user_posts(
    source: Path | None, *, time: str | None, text: str | None
) -> Iterator[UserPosts | None]:
    """Read and check the posts of a file, where one is given, and keep them in a folder."""
    expect_columns(source, {"time": time, "text": text})
    if source is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="elastream-posts-") as folder:
        recorded = RecordedFile(source, time or "", text or "")
        yield UserPosts(source.name, record_file(recorded, Path(folder) / "posts.arrow"))
