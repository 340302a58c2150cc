"""What the doctor shall check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from elastream.launch.program import Program
from elastream.model.checks import abbreviate, count, positive
from elastream.model.errors import ProblemError


@dataclass(frozen=True, slots=True)
class DoctorSettings:
    """Where an application would run, and how; checked when made."""

    master: str | None = None
    """The Spark master; ``None``: Spark's own configuration, else executors of this machine."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings that the application's session would have."""
    checkpoint: str | None = None
    """Where its queries keep their checkpoints; ``None`` where that is not known."""
    executors: int = 2
    """How many there should be room for."""
    patience_s: float = 60.0
    """How long to wait for them."""
    app: Path | None = None
    """The program, which is read and not run."""

    def __post_init__(self) -> None:
        count("executors", self.executors, least=1, most=10_000)
        positive("patience", self.patience_s)
        for name, value in (("master", self.master), ("checkpoint", self.checkpoint)):
            if value is not None and not value.strip():
                raise ProblemError(name, "is empty; leave it out, or say which")
        for name in self.conf:
            if not name.startswith("spark."):
                raise ProblemError("conf", f"{abbreviate(name)} is not a setting of Spark")
        if self.app is not None:
            Program(str(self.app))
