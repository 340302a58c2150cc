"""Docstrings are written for readers of Python: on the site, Sphinx roles become plain code."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["on_page_content"]

_ROLE = re.compile(r":(?:class|func|meth|mod|attr):<code>~?(?:[\w.]+\.)?(\w+)</code>")


def on_page_content(html: str, **_: Any) -> str:
    """Return the page without roles and without the mark of a literal block."""
    return _ROLE.sub(r"<code>\1</code>", html).replace("<p>::</p>", "")
