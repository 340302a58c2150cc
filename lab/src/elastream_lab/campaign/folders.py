"""Where a run keeps what: one folder, laid out the same for both sides of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Folders:
    """The folder of a run."""

    root: Path

    @property
    def scenario(self) -> Path:
        """What is run, as JSON."""
        return self.root / "scenario.json"

    @property
    def source(self) -> Path:
        """The files that the queries read."""
        return self.root / "source"

    @property
    def store(self) -> Path:
        """Where checkpoints are: a file system of its own where store faults shall be tried."""
        return self.root / "store"

    @property
    def checkpoints(self) -> Path:
        """The checkpoints, by the query's name."""
        return self.store / "checkpoints"

    @property
    def log(self) -> Path:
        """The decision log, of all applications one after another."""
        return self.root / "decisions.jsonl"

    def checkpoint(self, query: str) -> Path:
        """Return the checkpoint of a query."""
        return self.checkpoints / query

    def output(self, query: str) -> Path:
        """Return where a query's answers are, a file a batch."""
        return self.root / "output" / query

    def failing(self, query: str) -> Path:
        """Return the file whose presence lets the query's next batch fail."""
        return self.root / f"fail-{query}"

    def temporary(self, application: int) -> Path:
        """Return the folder for temporary files of the first, second, … application."""
        return self.root / "tmp" / str(application)

    def said(self, application: int) -> Path:
        """Return what that application wrote on standard error."""
        return self.root / f"application-{application}.log"

    def make(self) -> None:
        """Make those that the application expects."""
        for folder in (self.source, self.store, self.root / "tmp"):
            folder.mkdir(parents=True)
