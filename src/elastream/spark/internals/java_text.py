"""The Java texts next to this file, as what Spark's code generator takes."""

from __future__ import annotations

import threading
from collections.abc import MutableMapping, Sequence
from importlib.resources import files
from typing import Any, Final
from weakref import WeakKeyDictionary

from elastream.spark.internals.spark_internals import SparkInternals

_FACTORY: Final = "org.apache.spark.sql.catalyst.expressions.codegen.GeneratedClass"
_factories: Final[MutableMapping[Any, dict[str, Any]]] = WeakKeyDictionary()
"""What makes the objects of each text, by JVM and name."""
_lock: Final = threading.Lock()


def generated_code(jvm: Any, *names: str) -> Any:
    """Return texts, as one, as generated code of the JVM's, to be compiled wherever needed.

    The imports of all come first, as Java has it.
    """
    folder = files("elastream.spark.internals")
    lines = [
        line for name in names for line in folder.joinpath(name).read_text("utf-8").split("\n")
    ]
    imports = dict.fromkeys(line for line in lines if line.startswith("import "))
    text = "\n".join([*imports, *(line for line in lines if line not in imports)])
    comments = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    codegen = jvm.org.apache.spark.sql.catalyst.expressions.codegen
    return codegen.CodeAndComment(text, comments)


def compiled(internals: SparkInternals, name: str, references: Sequence[Any]) -> Any:
    """Return what a text makes of its references, in the driver; compiled once in a JVM.

    Py4j remembers a method by the name of its class. Spark gives the factories of all texts one
    name, and a text's classes the same names each time it is compiled, which is again once a
    hundred others were: so a factory is kept here, and called by the class that all extend.
    """
    with _lock:
        factories = _factories.setdefault(internals.jvm, {})
        if name not in factories:
            codegen = internals.jvm.org.apache.spark.sql.catalyst.expressions.codegen
            factories[name] = codegen.CodeGenerator.compile(
                generated_code(internals.jvm, name)
            )._1()
    declared = internals.jvm.java.lang.Class.forName(_FACTORY).getMethods()
    generate = next(each for each in declared if each.getName() == "generate")
    return generate.invoke(
        factories[name], internals.java_objects([internals.java_objects(references)])
    )
