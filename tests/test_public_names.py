from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import elastream
from elastream.model.errors import ElastreamError


def modules() -> Iterator[str]:
    yield from (module.name for module in walk_packages(elastream.__path__, "elastream."))


def test_every_public_name_is_there_and_sorted() -> None:
    assert elastream.__all__ == sorted(elastream.__all__)
    assert [name for name in elastream.__all__ if not hasattr(elastream, name)] == []


def test_nothing_is_public_that_the_list_does_not_name() -> None:
    packages = {"attach", "cli", "control", "model", "planners", "simulation", "spark", "studies"}
    found = {name for name in vars(elastream) if not name.startswith("_")}
    assert found - packages <= set(elastream.__all__)


def test_every_error_that_is_raised_on_purpose_is_one_of_ours() -> None:
    for name in modules():
        for value in vars(import_module(name)).values():
            if (
                isinstance(value, type)
                and issubclass(value, Exception)
                and value.__module__.startswith("elastream")
            ):
                assert issubclass(value, ElastreamError), value


def test_importing_the_package_loads_neither_java_nor_a_compiler_nor_a_solver() -> None:
    script = (
        "import sys, elastream;"
        "print(sorted({'pyspark', 'py4j', 'numba', 'scipy', 'matplotlib'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
