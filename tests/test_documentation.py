"""The examples of the README and the docs run, and their links lead somewhere.

Pages with examples on Spark are run by ``tests/spark/test_documentation.py``.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.documentation import (
    PAGES,
    ROOT,
    blocks,
    files,
    imports,
    imports_of,
    name_of,
    needs_spark,
    parsed,
    run_examples,
)
from tests.test_public_names import PACKAGES

from elastream.cli.main import main

PUBLIC = {package.__name__: package.__all__ for package in PACKAGES}
"""The whole interface: what an example may import of ours."""

PLAIN_PAGES = [page for page in PAGES if not needs_spark(page)]


@pytest.mark.parametrize("page", PLAIN_PAGES, ids=name_of)
def test_python_examples_run(page: Path) -> None:
    run_examples(page, {})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_examples_can_be_read(page: Path) -> None:
    for example in (*blocks(page, "python"), *files(page).values()):
        parsed(example)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_import_public_names_alone(page: Path) -> None:
    saved = files(page)
    others = {"pyspark", *sys.stdlib_module_names, *(Path(name).stem for name in saved)}
    for module, names in (*imports(page), *imports_of(saved.values())):
        if module.split(".")[0] not in others:
            assert module in PUBLIC, f"{module} is not part of the interface"
            assert set(names) <= set(PUBLIC[module]), module


def plans(page: Path) -> list[tuple[str, str]]:
    """Commands ``elastream plan`` of the page's console blocks, and what they print."""
    found = []
    for block in blocks(page, "console"):
        for said in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = re.sub(r"\n> *", " ", said).partition("\n")
            if "elastream plan" in command:
                found.append((command, printed))
    return found


def problem_of(command: str) -> tuple[list[str], str]:
    """The arguments of the command, and its problem: echoed, or the one of its kind's section."""
    echoed, _, words = command.rpartition("|")
    arguments = shlex.split(words)[1:]
    if echoed:
        return arguments, shlex.split(echoed)[1]
    page = (ROOT / "docs" / "reference" / "plan-files.md").read_text()
    section = re.search(rf"^## {arguments[1]}$.*?^```json\n(.*?)^```", page, re.DOTALL | re.M)
    assert section, f"no problem for {command}"
    return ["-" if each.endswith(".json") else each for each in arguments], section[1]


@pytest.mark.parametrize("page", [page for page in PAGES if plans(page)], ids=name_of)
def test_plans_in_console_blocks_are_what_the_command_prints(
    page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for command, expected in plans(page):
        arguments, problem = problem_of(command)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(problem.encode())))
        assert main(arguments) == 0, command
        said = capsys.readouterr()
        printed = re.sub(" +$", "", said.err if "--draw" in arguments else said.out, flags=re.M)
        pattern = ".*".join(re.escape(part) for part in expected.split("…"))
        assert re.fullmatch(pattern, printed), printed


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_the_problems_of_the_plan_files_page_can_be_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, plan = blocks(ROOT / "docs" / "reference" / "plan-files.md", "json")[:2]
    file = tmp_path / "problem.json"
    file.write_text(problem)
    assert main(["plan", "single-step", str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(plan)


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = [*PAGES, ROOT / "CONTRIBUTING.md"]
    named = {name for page in pages for name in re.findall(r"`make ([a-z-]+)`", page.read_text())}
    assert named <= targets


def test_every_place_that_contributing_names_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text().split("## Where do I add")[1].split("\n## ")[0]
    table = [line for line in text.splitlines() if line.startswith("| ") and "`" in line]
    places = [place for line in table for place in re.findall(r"`([\w*./-]+/[\w*./-]+)`", line)]
    assert len(table) == 7
    found = {
        place: any(
            list(folder.glob(place.replace("NAME", "*")))
            for folder in (ROOT, ROOT / "src" / "elastream")
        )
        for place in places
    }
    assert [place for place, exists in found.items() if not exists] == []
    (row,) = (line for line in table if line.startswith("| command "))
    (listed,) = re.findall(r"its line in `(cli/[\w/]+\.py)`", row)
    assert '"doctor"' in (ROOT / "src" / "elastream" / listed).read_text()


def test_every_benchmark_that_is_named_exists() -> None:
    written = r"`python -m elastream_lab\.benchmarks[ .\n](\w+)"
    named = {name for page in PAGES for name in re.findall(written, page.read_text())}
    assert named
    assert [name for name in named if not find_spec(f"elastream_lab.benchmarks.{name}")] == []


def test_every_elastream_command_that_is_named_exists(capsys: pytest.CaptureFixture[str]) -> None:
    named = {
        command
        for page in PAGES
        for command in re.findall(r"`elastream ((?:[a-z][a-z-]+ ?)+)", page.read_text())
    }
    for command in sorted(named):
        assert main([*shlex.split(command), "--help"]) == 0, command
    capsys.readouterr()


def test_a_keeper_polls_as_often_as_the_docs_say() -> None:
    java = (ROOT / "src/elastream/spark/internals/keeper.java").read_text()
    page = " ".join((ROOT / "docs/mechanisms/ahead.md").read_text().split())
    every_ms = [re.search(rf"{name} = (\d+);", java) for name in ("ALERT_MS", "CALM_MS")]
    alert, calm = (1000 // int(found[1]) for found in every_ms if found)
    assert f"at most {alert} times a second while tasks are about to move and {calm} times" in page
