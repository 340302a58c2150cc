"""What the project runs elsewhere is what it runs here: workflows, hooks, the lock."""

from __future__ import annotations

import json
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
    fields: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return fields


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
    report = yaml.safe_load(text)
    assert report["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    assert [action for action in re.findall(r"uses: (\S+)", text) if "@" not in action] == []
    extra = {
        name: job["permissions"] for name, job in report["jobs"].items() if "permissions" in job
    }
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


def test_every_spark_that_the_product_accepts_has_a_lock_and_the_workflow_runs_it() -> None:
    make = ["make", "--silent", "other-sparks"]
    others = json.loads(subprocess.run(make, cwd=ROOT, check=True, capture_output=True).stdout)
    locks = {path.name: path.read_text() for path in ROOT.glob("requirements-spark-*.lock")}
    pins = {
        name.removeprefix("requirements-spark-").removesuffix(".lock"): pin
        for name, text in locks.items()
        for pin in re.findall(r"^pyspark==(\S+)", text, re.MULTILINE)
    }
    [newest] = re.findall(r"^pyspark==(\S+)", LOCK, re.MULTILINE)
    listed = [*others, newest.rpartition(".")[0]]
    assert sorted(pins) == listed
    assert [pin for spark, pin in pins.items() if not pin.startswith(f"{spark}.")] == []
    assert pins[listed[-1]] == newest
    [accepted] = [
        each for each in project()["optional-dependencies"]["spark"] if each.startswith("pyspark")
    ]
    minors = (f"4.{minor}" for minor in range(100))
    assert [each for each in minors if each in SpecifierSet(accepted[7:])] == listed
    jobs = read(".github/workflows/test.yml")["jobs"]
    assert (
        jobs["versions"]["strategy"]["matrix"]["spark"]
        == "${{ fromJSON(needs.sparks.outputs.others) }}"
    )
    assert "make --silent other-sparks" in jobs["sparks"]["steps"][-1]["run"]
