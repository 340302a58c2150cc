"""Checks of what attaching needs, and what they found, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail", "not tried"]
"""``warn``: attaching works, and something about it could be better or is not known."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    name: str
    verdict: Verdict
    found: str
    todo: str = ""
    """What to do about it; also where all is well, for a case that was not checked. An option of
    the command stands between backquotes, by its name as a parameter."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check."""

    name: str
    doing: str
    """What a person reads meanwhile."""
    look: Callable[[], Finding]
    needs: tuple[str, ...] = ()
    """The checks without which there is nothing to look at."""


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, in the order of the checks."""

    findings: tuple[Finding, ...]

    @property
    def would_attach(self) -> bool:
        """Whether attaching would work: everything was tried and nothing failed."""
        return all(finding.verdict in ("ok", "warn") for finding in self.findings)

    @property
    def first_failure(self) -> Finding | None:
        """The first finding to do something about."""
        failures = (finding for finding in self.findings if finding.verdict == "fail")
        return next(failures, None)


def report_of(checks: Iterable[Check], on_check: Callable[[Check], None]) -> Report:
    """Run the checks in order; what needs something that failed is not tried."""
    findings: dict[str, Finding] = {}
    for check in checks:
        missing = [name for name in check.needs if not _serves(findings[name])]
        if missing:
            finding = Finding(check.name, "not tried", f"needs: {', '.join(missing)}")
        else:
            on_check(check)
            finding = check.look()
        findings[check.name] = finding
    return Report(tuple(findings.values()))


def _serves(finding: Finding) -> bool:
    return finding.verdict in ("ok", "warn")
