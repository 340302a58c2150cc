"""Values of the driver's JVM in Python: read as JSON, checked for a class, made for a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from elastream.model.errors import UnsupportedSparkError


class JvmValues:
    """What Python and one JVM exchange."""

    def __init__(self, jvm: Any) -> None:
        self.jvm = jvm
        """py4j's view of the JVM, for this package alone."""
        # A name with dots asks the JVM once a dot: what is used often is looked up here, once.
        self._java_list: Callable[[], Any] = jvm.java.util.ArrayList
        self._class: Callable[[str], Any] = jvm.java.lang.Class.forName
        self._to_seq: Callable[[Any], Any] = jvm.PythonUtils.toSeq
        self._mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self._mapper.registerModule(jvm.com.fasterxml.jackson.module.scala.DefaultScalaModule())

    def json(self, value: Any) -> Any:
        """Return a JVM value as plain Python, in one call however large it is."""
        return json.loads(self._mapper.writeValueAsString(value))

    def is_instance(self, class_name: str, value: Any) -> bool:
        """Tell whether a JVM value is of a class."""
        return bool(self._class(class_name).isInstance(value))

    def class_tag(self, class_name: str) -> Any:
        """Return Scala's tag of a class."""
        return self.jvm.scala.reflect.ClassTag.apply(self._class(class_name))

    def scala_map(self, values: Mapping[Any, Any] | None = None) -> Any:
        """Return a map of Scala's."""
        java_map = self.jvm.java.util.HashMap()
        for key, value in (values or {}).items():
            java_map.put(key, value)
        return self.jvm.PythonUtils.toScalaMap(java_map)

    def seq(self, values: Iterable[Any]) -> Any:
        """Return a sequence of Scala's."""
        java_list = self._java_list()
        for value in values:
            java_list.add(value)
        return self._to_seq(java_list)

    def field(self, value: Any, name: str, **default: Any) -> Any:
        """Return a private field of a JVM value; ``default``, where given, where it has none.

        Scala prefixes the names of some with those of their classes.
        """
        declared = value.getClass()
        while declared is not None:
            for field in declared.getDeclaredFields():
                if field.getName().rpartition("$$")[2] == name:
                    field.setAccessible(True)
                    return field.get(value)
            declared = declared.getSuperclass()
        if "default" in default:
            return default["default"]
        raise UnsupportedSparkError(f"a {value.getClass().getName()} has no field {name}")


def items(sequence: Any) -> list[Any]:
    """Return what is in a sequence of Scala's."""
    return [sequence.apply(index) for index in range(sequence.size())]


def java_array(gateway: Any, of: Any, values: Sequence[Any]) -> Any:
    """Return an array of the JVM, of a class."""
    made = gateway.new_array(of, len(values))
    for place, value in enumerate(values):
        made[place] = value
    return made


def first_line(failure: object) -> str:
    """Return the first line of what a failed call reports."""
    return " ".join((str(failure).strip() or "no reason given").splitlines()[0].split())
