"""The licences of everything that is locked, for ``docs/reference/licences.md``: ``make licences``.

Each is read from what the installed package says of itself, so it needs no network; a package that
this machine does not install, because the lock has it for other systems, is named as such.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).parent
LIST = ROOT / "docs" / "reference" / "licences.md"
LOCK = ROOT / "requirements.lock"
OTHER_SYSTEMS = "only on other systems"
_LONG = 60
_HEAD = """# Licences

What `requirements.lock` installs, and under which licence each package says it is.
Made by `make licences`; a test looks whether it is current.

| licence | packages |
|---|---|
"""


def locked(lock: Path = LOCK) -> Iterator[tuple[str, str, bool]]:
    """Yield name, version and whether a package is hashed, in the order of the lock."""
    entries = re.split(r"\n(?=[a-z0-9])", lock.read_text())
    for entry in entries:
        match = re.match(r"([a-z0-9][a-z0-9._-]*)==([^\s;\\]+)", entry)
        if match is not None:
            yield match[1], match[2], "--hash=sha256:" in entry


def licence(package: str) -> str:
    """Return the licence that an installed package names: its expression, classifier or text."""
    try:
        about = metadata(package)
    except PackageNotFoundError:
        return OTHER_SYSTEMS
    if expression := about.get("License-Expression"):
        return expression
    named = [each for each in about.get_all("Classifier") or () if each.startswith("License ::")]
    if named:
        return ", ".join(each.rpartition(":: ")[2] for each in named)
    text = (about.get("License") or "").strip().splitlines()
    return text[0][:_LONG] if text else "not named"


def by_licence() -> dict[str, list[str]]:
    """Return the packages of each licence, in the order of the lock."""
    found: dict[str, list[str]] = {}
    for name, version, _ in locked():
        found.setdefault(licence(name), []).append(f"{name} {version}")
    return dict(sorted(found.items()))


def page() -> str:
    """Return the list."""
    rows = (f"| {each} | {', '.join(packages)} |\n" for each, packages in by_licence().items())
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(page())
