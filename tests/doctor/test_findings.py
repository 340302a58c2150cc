from __future__ import annotations

from collections.abc import Callable

import pytest

from elastream.doctor.findings import Check, Finding, Report, Verdict, report_of


def found(name: str, verdict: Verdict) -> Callable[[], Finding]:
    return lambda: Finding(name, verdict, "something")


def never() -> Finding:
    pytest.fail("it was looked at")


@pytest.mark.parametrize(
    ("verdicts", "would_attach"),
    [
        (["ok", "ok"], True),
        (["ok", "warn"], True),
        (["ok", "fail", "not tried"], False),
        (["fail"], False),
        (["ok", "not tried"], False),
    ],
)
def test_attaching_works_where_all_was_tried_and_nothing_failed(
    verdicts: list[Verdict], would_attach: bool
) -> None:
    findings = tuple(Finding(str(n), verdict, "") for n, verdict in enumerate(verdicts))
    assert Report(findings).would_attach is would_attach


def test_what_needs_something_that_failed_is_not_tried_and_the_rest_is() -> None:
    lines: list[str] = []
    checks = (
        Check("first", "", found("first", "fail")),
        Check("warned", "", found("warned", "warn")),
        Check("second", "", never, ("warned", "first")),
        Check("third", "", never, ("second",)),
        Check("other", "", found("other", "ok"), ("warned",)),
    )
    report = report_of(checks, lambda check: lines.append(check.name))
    assert [(each.name, each.verdict, each.found) for each in report.findings] == [
        ("first", "fail", "something"),
        ("warned", "warn", "something"),
        ("second", "not tried", "needs: first"),
        ("third", "not tried", "needs: second"),
        ("other", "ok", "something"),
    ]
    assert lines == ["first", "warned", "other"]
    assert report.first_failure == report.findings[0]
