"""The settings of ``elastream run``; checked when made."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

from elastream.control.local_door import checked_path
from elastream.control.token_file import token_in
from elastream.core.decision_log import STANDARD_OUTPUT, DecisionLog
from elastream.core.goal import Goal
from elastream.core.policy import Policy, goal_named, goal_of
from elastream.extras import expect_installed
from elastream.launch.given import has_no_executors
from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError
from elastream.page.server import (
    checked_address,
    checked_certificate,
    checked_names,
    expect_private,
)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How the queries of a program shall be attached."""

    policy: Policy
    master: str | None = None
    """The Spark master; ``None``: the program's, else a cluster of our own on this machine."""
    force: bool = False
    """Whether the program's settings are overridden where they contradict what steering needs."""
    log: Path | None = None
    page: str | None = None
    page_names: tuple[str, ...] = ()
    """Further host names by which others call the page."""
    page_token: Path | None = None
    """The file with the token of those who may steer the loop through the page."""
    page_certificate: Path | None = None
    control: Path | None = None
    """The local socket at which the loop can be steered."""
    spans: bool = False
    """Whether spans of changes are sent over OTLP."""

    def __post_init__(self) -> None:
        if self.master is not None and has_no_executors(self.master):
            why = "is one process without executors; leave it out for some on this machine"
            raise ProblemError("master", f"{self.master} {why}")
        if self.log is not None and str(self.log) != STANDARD_OUTPUT:
            DecisionLog(self.log)  # refuse before a long run what cannot be written
        checked_names(self.page_names)
        for name in ("page_token", "page_certificate"):
            if getattr(self, name) is not None and self.page is None:
                raise ProblemError(name, "means something only with `page`")
        if self.page_certificate is not None:
            checked_certificate(self.page_certificate)
        if self.page is not None:
            address = checked_address(self.page)
            if self.page_token is not None:
                expect_private(address, self.page_certificate)
                token_in(self.page_token, field="page_token", make=True)
        if self.control is not None:
            checked_path(self.control)
        if self.spans:
            expect_installed("opentelemetry")


def goal_given(name: str, folder: str) -> Goal:
    """Return an installed goal by its name, or one that a module of the user has.

    That is ``module:name``, a goal or a function that returns one; modules in ``folder``, the
    program's own, are found too.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        return goal_named(name)
    sys.path.insert(0, folder)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ProblemError("goal", f"{abbreviate(name)} cannot be found: {error}") from None
    finally:
        sys.path.remove(folder)
    return goal_of(name, found)
