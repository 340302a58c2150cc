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


def listed(licences: ModuleType) -> dict[str, str]:
    """The licence of each package and version on the page."""
    rows = [row.split(" | ") for row in licences.LIST.read_text().splitlines() if " | " in row]
    return {
        package: licence.removeprefix("| ")
        for licence, packages in rows[1:]
        for package in packages.removesuffix(" |").split(", ")
    }


def test_the_list_of_licences_is_what_is_locked(licences: ModuleType) -> None:
    locked = [f"{name} {version}" for name, version, _ in licences.locked()]
    assert sorted(listed(licences)) == sorted(locked)


def test_the_list_says_what_the_packages_say(licences: ModuleType) -> None:
    said = {name: licences.licence(name) for name, *_ in licences.locked()}
    assert len([each for each in said.values() if each != "not named"]) > 50
    for package, licence in listed(licences).items():
        assert said[package.split()[0]] in (licence, licences.OTHER_SYSTEMS)


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
    installs += [line for line in lines if line.startswith("LOCKED :=")]
    assert len(installs) > 1
    assert [line for line in installs if "--require-hashes" not in line] == []
