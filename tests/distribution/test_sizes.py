"""What an installation takes on disk, as README says."""

from __future__ import annotations

import re

import pytest
from tests.distribution.conftest import ROOT, installed_bytes

MEGABYTE = 1e6


def stated(extra: str) -> float:
    """Return the megabytes that README states."""
    [figure] = re.findall(
        rf"`{re.escape(extra)}` takes ([\d,]+) MB", (ROOT / "README.md").read_text()
    )
    return float(figure.replace(",", ""))


def test_the_base_takes_at_most_150_megabytes() -> None:
    assert installed_bytes() <= 150 * MEGABYTE


@pytest.mark.parametrize(("name", "extras"), [("elastream", ()), ("elastream[demo]", ("demo",))])
def test_an_installation_takes_what_readme_states(name: str, extras: tuple[str, ...]) -> None:
    assert installed_bytes(*extras) / MEGABYTE == pytest.approx(stated(name), rel=0.1)


def test_only_the_extra_fast_brings_a_compiler() -> None:
    assert installed_bytes("fast") - installed_bytes() > 150 * MEGABYTE
    assert installed_bytes("demo", "fast") - installed_bytes("demo") > 150 * MEGABYTE
