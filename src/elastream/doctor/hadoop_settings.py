"""Where YARN is, by the files that Spark's driver would read, such as ``yarn-site.xml``.

Spark's own client tries a ResourceManager that does not answer for a quarter of an hour.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from elastream.model.errors import ProblemError

YARN_VARIABLES: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""Name the folders of YARN's configuration; the first that has a file counts."""
_FILES: Final = ("core-site.xml", "yarn-site.xml")
_MANAGER: Final = "yarn.resourcemanager"
_DEFAULTS: Final = {f"{_MANAGER}.hostname": "0.0.0.0"}  # noqa: S104 - YARN's own default
_PORT: Final = 8032
_NAMED: Final = re.compile(r"\$\{([^}]+)\}")
_DEPTH: Final = 20
"""How often a value may name another, as in Hadoop."""


def resource_managers(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return where ResourceManagers listen, as ``HOST:PORT``; ``None`` where the files do not say.

    Several are a high-availability group. A file that is not a configuration is refused.
    """
    settings = _DEFAULTS | _settings(environ)
    ids = [""]
    if settings.get(f"{_MANAGER}.ha.enabled", "false").strip().lower() == "true":
        named = settings.get(f"{_MANAGER}.ha.rm-ids", "").split(",")
        ids = [f".{each.strip()}" for each in named if each.strip()]
    found = [_address(settings, each) for each in ids]
    known = tuple(address for address in found if "$" not in address)
    return known if len(known) == len(found) > 0 else None


def _address(settings: Mapping[str, str], which: str) -> str:
    host = settings.get(f"{_MANAGER}.hostname{which}", settings[f"{_MANAGER}.hostname"])
    written = settings.get(f"{_MANAGER}.address{which}", f"{host}:{_PORT}")
    for _ in range(_DEPTH):
        filled = _NAMED.sub(lambda name: settings.get(name[1], name[0]), written)
        if filled == written:
            break
        written = filled
    return written.strip() if ":" in written else f"{written.strip()}:{_PORT}"


def _settings(environ: Mapping[str, str]) -> dict[str, str]:
    folders = [Path(environ[name]) for name in YARN_VARIABLES if environ.get(name)]
    found: dict[str, str] = {}
    for name in _FILES:
        files = (folder / name for folder in folders)
        file = next((each for each in files if each.is_file()), None)
        if file is not None:
            found |= _read(file)
    return found


def _read(file: Path) -> dict[str, str]:
    try:
        root = ElementTree.parse(file).getroot()  # noqa: S314 - the machine's own configuration
    except (OSError, ElementTree.ParseError) as error:
        raise ProblemError(str(file), f"is not a configuration: {error}") from None
    pairs = ((each.findtext("name"), each.findtext("value")) for each in root.iter("property"))
    return {name.strip(): value for name, value in pairs if name and value is not None}
