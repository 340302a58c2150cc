"""No module of the package imports itself by way of others.

All imports count: those at the top of a module, those inside functions, and those for type checking
alone. A package does not count as imported where only a module in it is.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import elastream

ROOT = Path(elastream.__file__).parent


def test_the_package_has_no_import_cycle() -> None:
    sources = {_module(path): path for path in ROOT.rglob("*.py")}
    assert _cycle({name: path.read_text(encoding="utf-8") for name, path in sources.items()}) == ""


def test_a_cycle_hidden_in_a_function_is_found() -> None:
    hidden = "def run():\n    from p.a import value\n"
    assert _cycle({"p.a": "import p.b", "p.b": hidden}) == "p.a > p.b > p.a"


def test_a_cycle_for_type_checking_alone_is_found() -> None:
    hidden = "if TYPE_CHECKING:\n    from p import a\n"
    assert _cycle({"p.a": "import p.b", "p.b": hidden}) == "p.a > p.b > p.a"


def test_a_module_may_import_another_of_its_package() -> None:
    assert _cycle({"p": "from p.a import value", "p.a": "from p.b import value", "p.b": ""}) == ""


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _cycle(sources: Mapping[str, str]) -> str:
    """Return a cycle of these modules, given by their names, or nothing."""
    imported = {name: sorted(_imported(name, sources)) for name in sorted(sources)}
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        return " > ".join(reversed(error.args[1]))
    return ""


def _imported(module: str, sources: Mapping[str, str]) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(sources[module])):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in sources else node.module)
    return names & sources.keys() - {module}
