"""The query that a command of ``elastream handover`` runs, and its start time."""

from __future__ import annotations

import importlib
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.extras import what_to_install
from elastream.model.checks import abbreviate
from elastream.model.errors import ElastreamError, ProblemError

if TYPE_CHECKING:
    from elastream.handover.spark.windowed import WindowedQuery


def query_named(name: str) -> WindowedQuery:
    """Return the query that a function ``module:function`` returns.

    A module in the current folder is found, both here and by the Python of executors on this
    machine.
    """
    from elastream.handover.spark.windowed import WindowedQuery

    module, _, function = name.partition(":")
    if not module or not function:
        raise ProblemError("QUERY", f"{abbreviate(name)} is not module:function")
    here = str(Path.cwd())
    if not sys.flags.safe_path and here not in sys.path:
        sys.path.insert(0, here)
        paths = (here, os.environ.get("PYTHONPATH", ""))
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    try:
        query = getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError) as error:
        if isinstance(error, ImportError) and what_to_install(error):
            raise
        raise ProblemError("QUERY", f"{abbreviate(name)} cannot be found: {error}") from None
    except ElastreamError as error:
        raise ProblemError("QUERY", f"{abbreviate(name)}: {error}") from None
    except Exception as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ProblemError("QUERY", f"{abbreviate(name)} fails: {why}") from error
    if not isinstance(query, WindowedQuery):
        raise ProblemError(
            "QUERY", f"{abbreviate(name)} gives {abbreviate(query)}, not a WindowedQuery"
        )
    return query


def ms_of(since: str) -> int:
    """Return a time in milliseconds since the epoch."""
    if since.isascii() and since.isdigit():
        return int(since)
    try:
        at = datetime.fromisoformat(since)
    except ValueError:
        why = f"{abbreviate(since)} is neither ISO 8601 nor milliseconds since the epoch"
        raise ProblemError("since", why) from None
    return int(at.timestamp() * 1000)
