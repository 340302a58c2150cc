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
import elastream.testing
from elastream.model.errors import ElastreamError


def modules() -> Iterator[str]:
    yield from (module.name for module in walk_packages(elastream.__path__, "elastream."))


@pytest.mark.parametrize("package", [elastream, elastream.testing])
def test_every_public_name_is_there_and_sorted(package: ModuleType) -> None:
    assert package.__all__ == sorted(set(package.__all__))
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


def test_type_checkers_and_python_see_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(elastream.__file__).read_text())
    (checked,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and not node.orelse and isinstance(node.test, ast.Name)
    )
    imported = {
        (each.name, each.asname, node.module)
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for each in node.names
    }
    assert imported == {(name, name, home) for name, home in elastream._HOMES.items()}


def test_nothing_is_public_that_the_list_does_not_name() -> None:
    packages = {module.name for module in iter_modules(elastream.__path__)}
    used = {"Any", "TYPE_CHECKING", "import_module"}
    found = {name for name in vars(elastream) if not name.startswith("_")}
    assert found - packages - used <= set(elastream.__all__)


def test_the_tools_for_tests_are_those_their_list_names_and_their_docstring_tells_of() -> None:
    modules = {path.stem for path in Path(elastream.testing.__path__[0]).glob("*.py")}
    found = {name for name in vars(elastream.testing) if not name.startswith("_")}
    used = {"Any", "TYPE_CHECKING", "import_module"}
    assert (found - modules - used) | set(elastream.testing._HANDOVER) == set(
        elastream.testing.__all__
    )
    about = elastream.testing.__doc__ or ""
    assert [name for name in elastream.testing.__all__ if f"`{name}`" not in about] == []


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


def test_importing_the_tools_for_tests_loads_no_spark() -> None:
    script = "import sys, elastream.testing;print(sorted({'pyspark', 'py4j'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_importing_the_package_loads_neither_java_nor_a_compiler_nor_a_solver() -> None:
    script = (
        "import sys, elastream;"
        "print(sorted({'pyspark', 'py4j', 'numba', 'scipy', 'matplotlib'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
