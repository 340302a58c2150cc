"""Which of a query's sources a leaf of its plan reads."""

from __future__ import annotations

from typing import Any


class SourceNumbers:
    """The sources of one query, numbered as its progress reports number them."""

    def __init__(self, execution: Any) -> None:
        told = execution.sources()
        self._sources: list[Any] = []
        for index in range(told.size()):
            source = told.apply(index)
            if not any(source.equals(other) for other in self._sources):
                self._sources.append(source)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._sources)

    def of(self, leaf: Any) -> int | None:
        """Return the number of the source that a leaf of an executed plan reads; ``None``: none."""
        from py4j.protocol import Py4JError

        try:
            stream = leaf.getStream()
        except Py4JError:  # a leaf of a kind that reads no stream
            return None
        if not stream.isDefined():
            return None
        read = stream.get()
        return next((n for n, source in enumerate(self._sources) if source.equals(read)), None)
