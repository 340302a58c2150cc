from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

import pytest

import elastream
from elastream.model.errors import ElastreamError


def modules() -> Iterator[str]:
    yield from (module.name for module in walk_packages(elastream.__path__, "elastream."))


def test_every_public_name_is_there_and_sorted() -> None:
    assert elastream.__all__ == sorted(elastream.__all__)
    assert [name for name in elastream.__all__ if not hasattr(elastream, name)] == []


def test_nothing_is_public_that_the_list_does_not_name() -> None:
    packages = {
        "attachment", "cli", "handover", "loop", "model", "planners", "spark", "studies", "testing",
        "traces", "whole_files",
    }  # fmt: skip
    used = {"Any", "TYPE_CHECKING", "import_module"}
    found = {name for name in vars(elastream) if not name.startswith("_")}
    assert found - packages - used <= set(elastream.__all__)


def test_a_name_that_is_not_public_is_told_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'elastream' has no attribute 'magic'"):
        _ = elastream.magic  # type: ignore[attr-defined]
    assert set(elastream.__all__) <= set(dir(elastream))


def test_public_names_stay_what_they_are_whichever_modules_are_loaded() -> None:
    for name in modules():
        import_module(name)
    functions = {name for name in elastream.__all__ if name[0].islower()}
    assert [name for name in functions if isinstance(getattr(elastream, name), ModuleType)] == []


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
