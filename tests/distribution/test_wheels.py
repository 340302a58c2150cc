"""What travels to a user, and what it asks for."""

from __future__ import annotations

import ast
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from tests.distribution.conftest import ROOT, Wheels, project

from elastream.extras import EXTRAS

pytestmark = pytest.mark.xdist_group("distribution")  # the wheels are built once

COMES_WITH = {
    "opentelemetry": "opentelemetry-exporter-otlp-proto-http",
    "prometheus_client": "prometheus-client",
    "py4j": "pyspark",
}
"""What is imported, and the library that brings it."""
ASKED_FOR_BY_SPARK = {"pandas", "protobuf"}
"""Not imported here: Spark's Arrow functions and transformWithState import them without asking."""
TOOLS = {"dev", "docs"}
"""Extras for working on elastream, not for using it."""


def files(wheel: Path) -> set[str]:
    with ZipFile(wheel) as opened:
        return set(opened.namelist())


def text(wheel: Path, name: str) -> str:
    with ZipFile(wheel) as opened:
        [found] = [each for each in opened.namelist() if each.endswith(f".dist-info/{name}")]
        return opened.read(found).decode()


def imported(package: Path) -> set[str]:
    """Return the top-level names that modules import from elsewhere, wherever they do so."""
    found: set[str] = set()
    for module in package.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module).partition(".")[0])
    return found - sys.stdlib_module_names - {package.name, "_typeshed"}


def names(requirements: list[str]) -> set[str]:
    return {Requirement(each).name for each in requirements}


def brought_by(*extras: str) -> set[str]:
    """Return what the product asks for, with these of its extras."""
    report = project()
    lists = [report["dependencies"], *(report["optional-dependencies"][extra] for extra in extras)]
    return names([each for requirements in lists for each in requirements]) - {"elastream"}


def rooms() -> set[str]:
    """Return the packages of the product, as its layers name them; each is in a layer."""
    fields = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    [layers] = [each["layers"] for each in fields if each["id"] == "layers"]
    return {room.strip() for layer in layers for room in layer.split("|")}


def test_the_product_holds_every_module_and_nothing_else(wheels: Wheels) -> None:
    held = {name for name in files(wheels.product) if ".dist-info/" not in name}
    source = ROOT / "src"
    there = {
        file.relative_to(source).as_posix()
        for file in source.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and ".egg-info" not in str(file)
    }
    assert held == there


def test_the_product_holds_no_study_no_rival_no_benchmark_and_no_application_but_the_demo(
    wheels: Wheels,
) -> None:
    parts = [name.split("/") for name in files(wheels.product) if ".dist-info/" not in name]
    assert {each[0] for each in parts} == {"elastream"}
    held = {each[1].removesuffix(".py") for each in parts}
    assert held == rooms() | {"__init__", "__init__.pyi", "py.typed"}
    lab = (ROOT / "lab/src/elastream_lab").iterdir()
    known = {each.name for each in lab if each.is_dir()} - held - {"__pycache__"}
    assert known >= {"applications", "benchmarks", "mechanisms", "rivals", "studies"}
    assert not known & {part for each in parts for part in each}


def test_the_lab_holds_the_lab_alone(wheels: Wheels) -> None:
    tops = {name.split("/")[0] for name in files(wheels.lab) if ".dist-info/" not in name}
    assert tops == {"elastream_lab"}


@pytest.mark.parametrize("package", ["product", "lab"])
def test_a_wheel_is_typed_licensed_and_described_as_the_standard_says(
    wheels: Wheels, package: str
) -> None:
    wheel: Path = getattr(wheels, package)
    assert [name for name in files(wheel) if name.endswith("/py.typed")] != []
    assert text(wheel, "licenses/LICENSE") == (ROOT / "LICENSE").read_text()
    report = Metadata.from_email(text(wheel, "METADATA"), validate=True)
    assert report.license_expression == "Apache-2.0"
    assert report.description_content_type == "text/markdown"


def test_the_commands_are_entry_points(wheels: Wheels) -> None:
    def entries(wheel: Path) -> dict[str, dict[str, str]]:
        read = ConfigParser(delimiters=("=",))
        read.read_string(text(wheel, "entry_points.txt"))
        return {name: dict(read[name]) for name in read.sections()}

    scripts = {"console_scripts": project()["scripts"]}
    assert entries(wheels.product) == scripts | project()["entry-points"]
    commands = project(ROOT / "lab")["entry-points"]["elastream.commands"]
    lab = {"bench", "measure", "patterns", "study", "taxi", "trace build", "traffic", "trial"}
    assert set(commands) == lab
    assert entries(wheels.lab) == {"elastream.commands": commands}


def test_the_product_asks_for_what_it_imports_and_for_nothing_else() -> None:
    extras = project()["optional-dependencies"].keys() - TOOLS
    used = {COMES_WITH.get(name, name) for name in imported(ROOT / "src/elastream")}
    assert brought_by(*extras) == used | ASKED_FOR_BY_SPARK


def test_each_library_of_an_extra_is_reported_by_the_command_line() -> None:
    reports = project()["optional-dependencies"]
    asked = {name: extra for extra in reports.keys() - TOOLS for name in names(reports[extra])}
    assert {name: extra for name, extra in asked.items() if name != "elastream"} == {
        **{COMES_WITH.get(name, name): extra for name, extra in EXTRAS.items()},
        **dict.fromkeys(ASKED_FOR_BY_SPARK, "spark"),
    }


def test_the_lab_imports_what_it_or_the_product_asks_for() -> None:
    report = project(ROOT / "lab")
    lab = names(report["dependencies"])
    extras = names([each for extra in report["optional-dependencies"].values() for each in extra])
    used = {COMES_WITH.get(name, name) for name in imported(ROOT / "lab/src/elastream_lab")}
    assert used <= lab | extras | brought_by("spark", "demo", "fast")
    assert extras <= used
    assert lab - used == {"topohub"}, "read as data, not imported"


def test_both_packages_are_one_version_under_one_licence_for_the_same_pythons() -> None:
    product, lab = project(), project(ROOT / "lab")
    for key in ("version", "license", "requires-python", "authors"):
        assert product[key] == lab[key], key
    assert f"elastream[demo,fast]=={product['version']}" in lab["dependencies"]
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "lab/LICENSE").read_bytes()
