"""What the project runs elsewhere is what it runs here: workflows, hooks, the lock."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from tests.distribution.conftest import ROOT, project

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
LOCK = (ROOT / "requirements.lock").read_text()


def read(name: str) -> dict[str, Any]:
    told: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return told


def test_the_workflow_runs_the_two_commands_on_every_python() -> None:
    job = read(".github/workflows/test.yml")["jobs"]["test"]
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == ["make test PYTHON=python", "make demo PYTHON=python"]
    pythons = job["strategy"]["matrix"]["python"]
    allowed = SpecifierSet(project()["requires-python"])
    assert [each for each in pythons if each not in allowed] == []
    assert min(pythons, key=Version) == "3.11"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_a_workflow_may_only_read_and_knows_no_secret(workflow: Any) -> None:
    text = workflow.read_text()
    told = yaml.safe_load(text)
    assert told["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    assert [action for action in re.findall(r"uses: (\S+)", text) if "@" not in action] == []
    extra = {name: job["permissions"] for name, job in told["jobs"].items() if "permissions" in job}
    assert extra in ({}, {"publish": {"id-token": "write"}})


def test_the_hooks_run_the_tools_that_make_test_runs() -> None:
    [repository] = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local", "one truth for the versions: the lock"
    tools = {hook["entry"].split()[0] for hook in repository["hooks"]}
    in_make = set(
        re.findall(r"@\$\(BIN\)/(ruff|mypy|lint-imports)\b", (ROOT / "Makefile").read_text())
    )
    assert tools == {f".venv/bin/{tool}" for tool in in_make}
    validate = [sys.executable, "-m", "pre_commit", "validate-config", ".pre-commit-config.yaml"]
    assert subprocess.run(validate, cwd=ROOT, check=False).returncode == 0


def test_the_lock_names_no_index_and_does_not_ask_for_elastream() -> None:
    assert "://" not in LOCK
    assert re.findall(r"^(?:-|elastream)", LOCK, re.MULTILINE) == []
    pins = re.findall(r"^[a-z][\w.-]*==\S+", LOCK, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^[a-z]", LOCK, re.MULTILINE)) > 50


def test_every_spark_that_the_product_accepts_has_a_lock_of_its_own() -> None:
    [listed] = re.findall(r"^SPARKS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    locks = {path.name: path.read_text() for path in ROOT.glob("requirements-spark-*.lock")}
    assert set(locks) == {f"requirements-spark-{spark}.lock" for spark in listed.split()}
    [accepted] = [
        each for each in project()["optional-dependencies"]["spark"] if each.startswith("pyspark")
    ]
    for spark in listed.split():
        [pin] = re.findall(
            r"^pyspark==(\S+)", locks[f"requirements-spark-{spark}.lock"], re.MULTILINE
        )
        assert pin in SpecifierSet(accepted.removeprefix("pyspark"))
        assert pin.startswith(f"{spark}.")
    assert re.search(rf"^pyspark=={re.escape(pin)} ", LOCK, re.MULTILINE), "the last is the lock's"
    others = read(".github/workflows/test.yml")["jobs"]["versions"]["strategy"]["matrix"]["spark"]
    assert others == listed.split()[:-1]
