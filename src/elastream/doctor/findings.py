"""What was found of each thing that attaching needs: as data, from whatever it was found by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail", "not tried"]
"""``warn``: attaching works, and something about it could be better or is not known."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing."""

    name: str
    verdict: Verdict
    found: str
    todo: str = ""
    """What to do about it; also where all is well, for a case that was not looked at. An option of
    the command that was called stands between backquotes, by its name as a parameter."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to look at."""

    name: str
    doing: str
    """What a person reads meanwhile."""
    look: Callable[[], Finding]
    needs: tuple[str, ...] = ()
    """The names of those without which there is nothing to look at."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found, in the order in which it was looked at."""

    findings: tuple[Finding, ...]

    @property
    def would_attach(self) -> bool:
        """Whether attaching would work: everything was tried and nothing failed."""
        return all(finding.verdict in ("ok", "warn") for finding in self.findings)

    @property
    def first_failure(self) -> Finding | None:
        """What to do something about first."""
        failures = (finding for finding in self.findings if finding.verdict == "fail")
        return next(failures, None)


def report_of(checks: Iterable[Check], telling: Callable[[Check], None] = lambda _: None) -> Report:
    """Look at one thing after the other; what needs something that failed is not tried."""
    findings: dict[str, Finding] = {}
    for check in checks:
        missing = [name for name in check.needs if not _serves(findings[name])]
        if missing:
            finding = Finding(check.name, "not tried", f"needs: {', '.join(missing)}")
        else:
            telling(check)
            finding = check.look()
        findings[check.name] = finding
    return Report(tuple(findings.values()))


def _serves(finding: Finding) -> bool:
    return finding.verdict in ("ok", "warn")
