"""The Java texts beside this file, as what Spark's code generator takes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastream.spark.door.private_door import PrivateDoor

__all__ = ["compiled", "generated_code"]


def generated_code(jvm: Any, name: str) -> Any:
    """Return a text as generated code of the JVM's, to be compiled wherever it is needed."""
    text = files("elastream.spark.door").joinpath(name).read_text("utf-8")
    comments = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    codegen = jvm.org.apache.spark.sql.catalyst.expressions.codegen
    return codegen.CodeAndComment(text, comments)


def compiled(door: PrivateDoor, name: str, references: Sequence[Any]) -> Any:
    """Return what a text makes of its references, in the driver; compiled once, then remembered."""
    codegen = door.jvm.org.apache.spark.sql.catalyst.expressions.codegen
    found = codegen.CodeGenerator.compile(generated_code(door.jvm, name))
    return found._1().generate(door.java_objects(references))
