"""Run the benchmarks named, or all: ``python -m elastream_lab.benchmarks [NAME ...]``."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from elastream_lab import benchmarks


def main(wanted: list[str]) -> int:
    """Run each benchmark and return an exit code."""
    modules = pkgutil.iter_modules(benchmarks.__path__)
    names = sorted(m.name for m in modules if m.name[0] != "_" and not m.ispkg)
    unknown = [name for name in wanted if name not in names]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    for name in wanted or names:
        importlib.import_module(f"{benchmarks.__name__}.{name}").run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
