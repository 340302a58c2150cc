"""Spark's failures in one line for a person: the innermost cause, without its stack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from elastream.model.errors import ElastreamError, ProblemError


@contextmanager
def input_refused() -> Iterator[None]:
    """Raise what Spark cannot read as a wrong ``input``."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except ElastreamError:
        raise
    except (PySparkException, Py4JError) as error:
        raise ProblemError("input", f"cannot be read: {_cause(error)}") from None


def _cause(error: Exception) -> str:
    thrown = getattr(error, "java_exception", None)
    while thrown is not None and thrown.getCause() is not None:
        thrown = thrown.getCause()
    text = str(error) if thrown is None else str(thrown.getMessage())
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason is given")
