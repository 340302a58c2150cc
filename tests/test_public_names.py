from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from types import ModuleType

import pytest

import elastream
import elastream.foresight
import elastream.handover
import elastream.replication
import elastream.resilience
import elastream.testing
from elastream.model.errors import ElastreamError

PACKAGES = [
    elastream,
    elastream.foresight,
    elastream.handover,
    elastream.replication,
    elastream.resilience,
    elastream.testing,
]


def modules() -> Iterator[str]:
    yield from (module.name for module in walk_packages(elastream.__path__, "elastream."))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there_and_sorted(package: ModuleType) -> None:
    assert package.__all__ == sorted(set(package.__all__))
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_line_of_a_stub_makes_a_name_public(package: ModuleType) -> None:
    stub = ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text())
    imported = [
        each.asname for node in stub.body if isinstance(node, ast.ImportFrom) for each in node.names
    ]
    assert len(imported) == len(stub.body)
    assert sorted(map(str, imported)) == package.__all__


def test_every_package_with_a_stub_is_checked_here() -> None:
    stubs = Path(elastream.__path__[0]).rglob("__init__.pyi")
    assert {stub.parent for stub in stubs} == {Path(package.__path__[0]) for package in PACKAGES}


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_is_public_that_the_list_does_not_name(package: ModuleType) -> None:
    submodules = {module.name for module in iter_modules(package.__path__)}
    found = {name for name in vars(package) if not name.startswith("_")}
    assert found - submodules - {"lazy_names"} <= set(package.__all__)


def test_the_main_package_has_about_thirty_names() -> None:
    assert len(vars(elastream)["__all__"]) <= 35


def test_the_docstring_of_the_tools_for_tests_names_each() -> None:
    names, about = vars(elastream.testing)["__all__"], elastream.testing.__doc__ or ""
    assert [name for name in names if f"`{name}`" not in about] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_public_is_an_attribute_error(package: ModuleType) -> None:
    message = f"module '{package.__name__}' has no attribute 'magic'"
    with pytest.raises(AttributeError, match=message):
        _ = package.magic
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_stay_what_they_are_whichever_modules_are_loaded(package: ModuleType) -> None:
    for name in modules():
        import_module(name)
    functions = {name for name in package.__all__ if name[0].islower()}
    assert [name for name in functions if isinstance(getattr(package, name), ModuleType)] == []


def test_every_error_that_is_raised_on_purpose_is_one_of_ours() -> None:
    for name in modules():
        for value in vars(import_module(name)).values():
            if (
                isinstance(value, type)
                and issubclass(value, Exception)
                and value.__module__.startswith("elastream")
            ):
                assert issubclass(value, ElastreamError), value


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_loads_neither_java_nor_a_compiler_nor_a_solver(
    package: ModuleType,
) -> None:
    script = (
        f"import sys, {package.__name__};"
        "heavy = {'pyspark', 'py4j', 'numba', 'highspy', 'scipy', 'matplotlib', 'opentelemetry'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_importing_elastream_and_its_goals_and_planners_loads_no_numpy() -> None:
    script = (
        "import sys, elastream; from elastream.registry import GOALS, PLANNERS, installed, load\n"
        "for group in (GOALS, PLANNERS):\n"
        "    for name in installed(group): load(group, name, field='name')\n"
        "print('numpy' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
