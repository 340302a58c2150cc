"""The Java texts beside this file, as what Spark's code generator takes."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

__all__ = ["generated_code"]


def generated_code(jvm: Any, name: str) -> Any:
    """Return a text as generated code of the JVM's, to be compiled wherever it is needed."""
    text = files("elastream.spark.door").joinpath(name).read_text("utf-8")
    comments = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    codegen = jvm.org.apache.spark.sql.catalyst.expressions.codegen
    return codegen.CodeAndComment(text, comments)
