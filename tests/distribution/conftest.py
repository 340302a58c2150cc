"""The two wheels, built once, and environments that hold no more than what is declared.

Nothing is downloaded: libraries are links into the environment that runs the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent.parent
_LITTER = shutil.ignore_patterns("*.egg-info", "__pycache__", "build", "dist")


def project(folder: Path = ROOT) -> dict[str, Any]:
    """Return the table ``project`` of a package."""
    fields: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return fields


@dataclass(frozen=True)
class Wheels:
    product: Path
    lab: Path


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    """Both wheels, each built from a copy without what earlier builds have left.

    With ``ELASTREAM_DIST`` those that `make dist` has put there.
    """
    ready = os.environ.get("ELASTREAM_DIST")
    if ready is not None:
        [lab], [product] = (
            Path(ready).glob(f"{name}-*.whl") for name in ("elastream_lab", "elastream")
        )
        return Wheels(product.resolve(), lab.resolve())
    made = tmp_path_factory.mktemp("wheels")
    return Wheels(_built(ROOT, made / "product"), _built(ROOT / "lab", made / "lab"))


def _built(package: Path, folder: Path) -> Path:
    copy = folder / "source"
    shutil.copytree(package / "src", copy / "src", ignore=_LITTER)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(package / name, copy)
    quiet = ["--quiet", "--disable-pip-version-check", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    _pip("wheel", *quiet, *options, str(copy))
    [wheel] = folder.glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the product and the libraries of some of its extras."""

    folder: Path

    @property
    def site(self) -> Path:
        """Where its packages are."""
        names = {"base": str(self.folder), "platbase": str(self.folder)}
        return Path(sysconfig.get_path("purelib", "venv", names))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``elastream`` as a user would who has nothing else."""
        command = [str(self.folder / "bin" / "elastream"), *arguments]
        home = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin", "COLUMNS": "200"}
        return subprocess.run(
            command, cwd=self.folder, env=home, capture_output=True, text=True, check=False
        )

    def refusal(self, *arguments: str) -> str:
        """Return the one line of a command that cannot be carried out."""
        ended = self.run(*arguments)
        assert (ended.returncode, ended.stdout) == (2, ""), ended
        [line] = ended.stderr.splitlines()
        return line


MakeEnvironment = Callable[..., Environment]


@pytest.fixture(scope="session")
def environment(
    wheels: Wheels, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Environment]:
    """Make an environment of the product alone, with the extras that are named."""

    def made(*extras: str) -> Environment:
        folder = tmp_path_factory.mktemp("environment")
        venv.create(folder, symlinks=True)
        alone = Environment(folder)
        _link_libraries(alone.site, extras)
        quiet = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
        python = str(folder / "bin" / "python")
        _pip("--python", python, "install", *quiet, str(wheels.product))
        return alone

    return made


def _link_libraries(site: Path, extras: tuple[str, ...]) -> None:
    for library in _libraries(project(), extras):
        home = Path(str(library.locate_file("")))
        tops = {file.parts[0] for file in library.files or ()} - {"..", "__pycache__"}
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(home / top)


def installed_bytes(*extras: str) -> int:
    """Return the size of what ``pip install elastream[EXTRAS]`` installs, the product left out."""
    libraries = {each.metadata["Name"]: each for each in _libraries(project(), extras)}
    files = [file.locate() for each in libraries.values() for file in each.files or ()]
    return sum(Path(str(file)).stat().st_size for file in files if Path(str(file)).exists())


def _libraries(product: dict[str, Any], extras: tuple[str, ...]) -> Iterator[Distribution]:
    """Yield what ``pip install elastream[EXTRAS]`` would bring in addition to the product."""
    named = product["optional-dependencies"]
    asked = [*product["dependencies"], *(each for extra in extras for each in named[extra])]
    seen: set[tuple[str, frozenset[str]]] = set()
    while asked:
        wanted = Requirement(asked.pop())
        if wanted.name == "elastream":
            asked += [each for extra in wanted.extras for each in named[extra]]
            continue
        key = (wanted.name.lower(), frozenset(wanted.extras))
        if key in seen:
            continue
        seen.add(key)
        found = distribution(wanted.name)
        yield found
        asked += [text for text in found.requires or () if _applies(text, wanted.extras)]


def _applies(text: str, extras: set[str]) -> bool:
    marker = Requirement(text).marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""}))


def _pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
