"""Public names whose modules are imported when a name is first used.

So ``import elastream`` loads neither Spark nor a solver. The names of a package are the lines
``from MODULE import NAME as NAME`` of its stub ``__init__.pyi``, which type checkers read as well.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

_LINE: Final = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)


def lazy_names(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package that has a stub."""
    names = vars(sys.modules[package])
    stub = names["__loader__"].get_data(f"{names['__path__'][0]}/__init__.pyi").decode()
    modules = {name: module for module, name in _LINE.findall(stub)}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = names[name] = getattr(import_module(modules[name]), name)
        return value

    return sorted(modules), get, lambda: sorted({*names, *modules})
