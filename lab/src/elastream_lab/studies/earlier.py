"""What an earlier run of a study wrote as JSON, to be joined with more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from elastream.model.errors import ProblemError


def written_figures(path: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of a file by their names; raises ``ProblemError`` where it has none."""
    try:
        fields: Any = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ProblemError(str(path), f"cannot be read: {error}") from None
    listed = fields if isinstance(fields, list) else []
    return {str(each.get("figure")): each for each in listed if isinstance(each, dict)}
