"""Values of the driver's JVM in Python: read as JSON, told by their class, and made for a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any


class JvmValues:
    """What Python and one JVM exchange."""

    def __init__(self, jvm: Any) -> None:
        self.jvm = jvm
        """py4j's view of the JVM, for this package alone."""
        # A name with dots asks the JVM once a dot: what is used often is looked up here, once.
        self.java_list: Callable[[], Any] = jvm.java.util.ArrayList
        self._class: Callable[[str], Any] = jvm.java.lang.Class.forName
        self._to_seq: Callable[[Any], Any] = jvm.PythonUtils.toSeq
        self._mapper = _json_mapper(jvm)

    def json(self, value: Any) -> Any:
        """Return a JVM value as plain Python, in one call however large it is."""
        return json.loads(self._mapper.writeValueAsString(value))

    def is_instance(self, class_name: str, value: Any) -> bool:
        """Tell whether a JVM value is of a class."""
        return bool(self._class(class_name).isInstance(value))

    def _seq(self, values: Iterable[str]) -> Any:
        java_list = self.java_list()
        for value in values:
            java_list.add(value)
        return self._to_seq(java_list)


def _json_mapper(jvm: Any) -> Any:
    """Return a writer of JSON that knows Scala's types."""
    mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    mapper.registerModule(jvm.com.fasterxml.jackson.module.scala.DefaultScalaModule())
    return mapper
