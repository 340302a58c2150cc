"""The pages of the documentation, their examples, and what the examples take as given."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import sys
from collections.abc import Iterable, Iterator
from doctest import DocTestParser, DocTestRunner
from pathlib import Path
from typing import Any

__all__ = [
    "GIVEN",
    "PAGES",
    "ROOT",
    "blocks",
    "builds_session",
    "files",
    "imports",
    "imports_of",
    "name_of",
    "names_in",
    "needs_spark",
    "parsed",
    "run_examples",
]

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "lab" / "docs").rglob("*.md")),
]

GIVEN = {"spark", "counts", "query", "first", "second"}
"""What an example may take as given: a session, a stateful frame of a stream, running queries."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def files(page: Path) -> dict[str, str]:
    """Return the programs that a reader of the page saves, by the names they are saved under.

    They are not examples that run one after the other: ``tests/test_tutorial.py`` runs the steps.
    """
    titled = r'^```python title="([\w.]+)"\n(.*?)^```'
    return dict(re.findall(titled, page.read_text(), re.DOTALL | re.MULTILINE))


def parsed(example: str) -> ast.Module:
    if is_session(example):
        example = "".join(each.source for each in DocTestParser().get_examples(example))
    return ast.parse(example)


def is_session(example: str) -> bool:
    return example.lstrip().startswith(">>>")


def names_in(page: Path) -> set[str]:
    """Return every name that the page's examples take as given: read, and made by none before."""
    taken: set[str] = set()
    made: set[str] = set(dir(builtins))
    for example in blocks(page, "python"):
        table = symtable.symtable(ast.unparse(parsed(example)), str(page), "exec")
        made |= {name.get_name() for name in table.get_symbols() if name.is_local()}
        taken |= set(_global_names(table)) - made
    return taken


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names that are read from outside, also from within functions."""
    is_module = table.get_type() == "module"
    for name in table.get_symbols():
        if name.is_referenced() and (is_module or name.is_global()):
            yield name.get_name()
    for inner in table.get_children():
        yield from _global_names(inner)


def needs_spark(page: Path) -> bool:
    """Return whether an example of the page uses a session or makes one."""
    return builds_session(page) or not names_in(page).isdisjoint(GIVEN)


def builds_session(page: Path) -> bool:
    """Return whether the page's examples make a session of their own."""
    return any("SparkSession" in names for _, names in imports(page))


def imports(page: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each module that the page's examples import, and the names they take from it."""
    yield from imports_of(blocks(page, "python"))


def imports_of(examples: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the same of some examples."""
    for example in examples:
        for node in ast.walk(parsed(example)):
            if isinstance(node, ast.Import):
                yield from ((each.name, ()) for each in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.module or ".", tuple(each.name for each in node.names)


def run_examples(page: Path, names: dict[str, Any]) -> None:
    """Run the page's examples one after the other; they build on each other."""
    for number, example in enumerate(blocks(page, "python")):
        if is_session(example):
            session = DocTestParser().get_doctest(example, names, f"{number}", str(page), 0)
            assert DocTestRunner().run(session, clear_globs=False).failed == 0
            names |= session.globs
        else:
            exec(compile(example, str(page), "exec"), names)
    for name in [name for name in names if name.startswith("test_")]:
        names[name]()  # as pytest would, in a file of the reader's


if __name__ == "__main__":  # the page builds its own session, in a process of its own
    run_examples(Path(sys.argv[1]), {"__name__": "__main__"})
