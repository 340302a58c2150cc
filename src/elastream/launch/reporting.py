"""The lines that elastream writes to standard error."""

from __future__ import annotations

import sys

from elastream.model.words import printable


def report(text: str) -> None:
    """Write the text as one line; what a terminal would act on is escaped."""
    print(f"elastream: {printable(' '.join(text.split()))}", file=sys.stderr)
