"""Every dependency is pinned, hashed, and listed with its licence."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences", ROOT / "licences.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_of_licences_is_what_is_locked(licences: ModuleType) -> None:
    rows = licences.LIST.read_text().splitlines()
    reports = [row.split("|")[1:3] for row in rows if row.startswith("| ") and "package" not in row]
    locked = [(name, version) for name, version, _ in licences.locked()]
    assert [(name.strip(), version.strip()) for name, version in reports] == locked


def test_the_list_says_what_the_packages_say(licences: ModuleType) -> None:
    installed = [name for name, *_ in licences.locked() if licences.licence(name) != "not named"]
    assert len(installed) > 50
    page = licences.LIST.read_text()
    for name, version, _ in licences.locked():
        said = licences.licence(name)
        assert said == licences.OTHER_SYSTEMS or f"| {name} | {version} | {said} |" in page


@pytest.mark.parametrize(
    "lock", sorted(ROOT.glob("requirements*.lock")), ids=lambda lock: lock.name
)
def test_every_locked_package_is_hashed(licences: ModuleType, lock: Path) -> None:
    packages = list(licences.locked(lock))
    assert packages
    assert [name for name, _, hashed in packages if not hashed] == []


def test_the_commands_that_install_refuse_what_is_not_hashed() -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    installs = [
        line for line in lines if ".lock" in line and "-r " in line and "install" in line.lower()
    ]
    assert installs
    assert [line for line in installs if "--require-hashes" not in line] == []
