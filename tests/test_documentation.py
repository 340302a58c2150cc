"""The examples of the README and the docs run, and their links lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
from doctest import DocTestParser, DocTestRunner
from pathlib import Path

import pytest

from elastream.cli.main import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def needs_spark(example: str) -> bool:
    """Examples on a live query are run by the tests of the Spark layer, in their own words."""
    return "spark" in example.lower()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_examples_run(page: Path) -> None:
    names: dict[str, object] = {}  # the examples of a page build on each other
    for number, example in enumerate(blocks(page, "python")):
        if example.lstrip().startswith(">>>"):
            name = f"example {number}"
            session = DocTestParser().get_doctest(example, names, name, str(page), 0)
            assert DocTestRunner().run(session, clear_globs=False).failed == 0
            names |= session.globs
        elif needs_spark(example):
            compile(example, str(page), "exec")
        else:
            exec(compile(example, str(page), "exec"), names)
    for name in [name for name in names if name.startswith("test_")]:
        names[name]()  # type: ignore[operator]  # as pytest would, in a file of the reader's


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_the_problems_of_the_plan_files_page_can_be_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, plan = blocks(ROOT / "docs" / "plan-files.md", "json")[:2]
    file = tmp_path / "problem.json"
    file.write_text(problem)
    assert main(["plan", "single-step", str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(plan)


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = [*PAGES, ROOT / "CONTRIBUTING.md"]
    named = {name for page in pages for name in re.findall(r"`make ([a-z-]+)`", page.read_text())}
    assert named <= targets


def test_every_elastream_command_that_is_named_exists(capsys: pytest.CaptureFixture[str]) -> None:
    named = {
        command
        for page in PAGES
        for command in re.findall(r"`elastream ((?:[a-z][a-z-]+ ?)+)", page.read_text())
    }
    for command in sorted(named):
        assert main([*shlex.split(command), "--help"]) == 0, command
    capsys.readouterr()
