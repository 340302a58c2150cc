"""The site holds every page and every public name, and is built without network."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.documentation import ROOT
from tests.test_public_names import PACKAGES

import elastream.testing

CONFIGURATION = (ROOT / "mkdocs.yml").read_text()


def test_every_page_has_its_place_in_the_site() -> None:
    named = re.findall(r": ([\w./-]+\.md)$", CONFIGURATION, re.MULTILINE)
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(named) == sorted(pages)


def test_the_reference_has_every_public_name_once() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    named = re.findall(r"^::: (\S+)$", page, re.MULTILINE)
    public = [
        f"{package.__name__}.{name}"
        for package in PACKAGES
        if package is not elastream.testing
        for name in package.__all__
    ]
    assert sorted(named) == sorted(public)


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_the_site_is_built_with_no_broken_link_and_asks_nobody(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(
        [*build, str(tmp_path)], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    fetched = r"""<(?:script|img|iframe)[^>]*src=["']?https?:|<link[^>]*href=["']?https?:"""
    pages = list(tmp_path.rglob("*.html"))
    assert pages
    assert [page.name for page in pages if re.search(fetched, page.read_text())] == []
