"""Classes that are written in Java, without a jar to install.

The driver compiles the text with the compiler that Spark has for its generated code, once for an
application, and gives the classes to Spark as a program's own jar: it goes to all executors, also
to those that come later.
"""

from __future__ import annotations

import zipfile
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from elastream.model.errors import UnsupportedSparkError
from elastream.spark.internals.jvm_values import first_line, java_array

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SHIPPED: Final[dict[tuple[str, str], tuple[Any, TemporaryDirectory[str]]]] = {}
"""By application and text: the driver's loader of the classes, and the folder that has the jar for
executors that come later. The folder goes with this process."""


def java_classes(spark: SparkSession, package: str, text: str) -> Any:
    """Return the driver's loader of the classes in a Java text of ``package``."""
    from py4j.protocol import Py4JError

    application = str(spark.sparkContext.applicationId)
    if (application, text) not in _SHIPPED:
        try:
            _SHIPPED[application, text] = _shipped(spark, package, text)
        except Py4JError as error:
            why = f"this Spark does not compile {text}: {first_line(error)}"
            raise UnsupportedSparkError(why) from error
    return _SHIPPED[application, text][0]


def _shipped(spark: SparkSession, package: str, text: str) -> tuple[Any, TemporaryDirectory[str]]:
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.jvm
    parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    compiler.cook(files(package).joinpath(text).read_text("utf-8"))
    folder = TemporaryDirectory(prefix="elastream-classes-", ignore_cleanup_errors=True)
    jar = Path(folder.name) / f"{Path(text).stem}.jar"
    with zipfile.ZipFile(jar, "w") as packed:
        for name, code in dict(compiler.getBytecodes()).items():
            packed.writestr(f"{name.replace('.', '/')}.class", bytes(code))
    spark.sparkContext._jsc.sc().addJar(str(jar))
    addresses = java_array(gateway, jvm.java.net.URL, [jvm.java.io.File(str(jar)).toURI().toURL()])
    return jvm.java.net.URLClassLoader(addresses, parent), folder
