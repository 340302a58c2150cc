"""A Java text beside this file as a class that every executor has, without a jar to install.

The driver compiles the text with the compiler that Spark has for its generated code, packs the
classes and gives them to Spark as a program's own jar: it goes to all executors, also to those that
come later. Compiled once for an application.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from elastream.model.errors import UnsupportedSparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SHIPPED: Final[dict[tuple[str, str], tuple[Any, TemporaryDirectory[str]]]] = {}
"""By application and text: the driver's loader of the classes, and the folder that has the jar for
executors that come later. The folder goes with this process."""


def shipped_object(spark: SparkSession, text: str, name: str, arguments: Sequence[Any]) -> Any:
    """Return an object of the class, made of the arguments by its only constructor."""
    from py4j.protocol import Py4JError

    application = str(spark.sparkContext.applicationId)
    if (application, text) not in _SHIPPED:
        try:
            _SHIPPED[application, text] = _shipped(spark, text)
        except Py4JError as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
            raise UnsupportedSparkError(f"this Spark does not compile {text}: {first}") from error
    jvm: Any = spark.sparkContext._jvm
    given = _array(jvm, "java.lang.Object", arguments)
    loader, _ = _SHIPPED[application, text]
    return loader.loadClass(name).getConstructors()[0].newInstance(given)


def _shipped(spark: SparkSession, text: str) -> tuple[Any, TemporaryDirectory[str]]:
    """Compile, pack and ship the text."""
    jvm: Any = spark.sparkContext._jvm
    parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    compiler.cook(files("elastream.spark.internals").joinpath(text).read_text("utf-8"))
    folder = TemporaryDirectory(prefix="elastream-classes-", ignore_cleanup_errors=True)
    jar = Path(folder.name) / f"{Path(text).stem}.jar"
    with zipfile.ZipFile(jar, "w") as packed:
        for name, code in dict(compiler.getBytecodes()).items():
            packed.writestr(f"{name.replace('.', '/')}.class", bytes(code))
    spark.sparkContext._jsc.sc().addJar(str(jar))
    address = jvm.java.io.File(str(jar)).toURI().toURL()
    return jvm.java.net.URLClassLoader(_array(jvm, "java.net.URL", [address]), parent), folder


def _array(jvm: Any, of: str, values: Sequence[Any]) -> Any:
    made = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName(of), len(values))
    for i, value in enumerate(values):
        made[i] = value
    return made
