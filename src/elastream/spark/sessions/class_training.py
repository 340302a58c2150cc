"""Making the archive of classes: one executor runs what executors run, and lists what it loads.

It takes a session, once on a machine and Spark; ``python -m`` this module does it beforehand. While
one process makes the archive, others start without it.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import logging
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.sessions.class_archive import archive_file, make_archive, recording_options
from elastream.spark.sessions.embedded_cluster import JVM_OPTIONS, EmbeddedCluster, embedded_session
from elastream.spark.sessions.java import java_home
from elastream.spark.sessions.spark_home import spark_home
from elastream.spark.steer.warm_up import first_job, warm_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_log = logging.getLogger(__name__)

_BATCHES: Final = 2
_CLASS_PATH: Final = "reflect('java.lang.System', 'getProperty', 'java.class.path')"


def ensure_archive(
    cluster: EmbeddedCluster, say: Callable[[str], None] | None = None
) -> Path | None:
    """Make the archive for sessions of this cluster where it is missing; return it.

    ``None`` where it could not be made: sessions start without it. ``say`` is called at its start.
    """
    java = cluster.java or java_home()
    with tempfile.TemporaryDirectory(prefix="elastream-classes-") as name:
        folder = Path(name)
        archive = archive_file(java, spark_home(folder))
        if archive is None or archive.is_file():
            return archive
        with _alone(archive.with_suffix(".lock")) as alone:
            if not alone:
                return None
            if say is not None:
                say("preparing an archive of Java's classes, once on this machine")
            try:
                class_path = _trained(cluster, folder)
                make_archive(archive, java, folder, class_path, JVM_OPTIONS)
            except Exception as error:  # it only spares time
                _log.warning("executors start without an archive of classes: %s", error)
                return None
    return archive


def _trained(cluster: EmbeddedCluster, folder: Path) -> str:
    options = JVM_OPTIONS + recording_options(folder)
    config = {**cluster.config, "spark.executor.extraJavaOptions": options}
    alone = replace(cluster, executors=1, max_executors=1, config=config)
    with embedded_session(alone) as spark:
        internals = SparkInternals.of(spark)
        (executor,) = internals.executors()
        first_job(internals, executor)
        warm_up(internals, [executor], batches=_BATCHES)
        _run_python(spark)
        ((class_path,),) = spark.range(1).selectExpr(_CLASS_PATH).collect()
    return str(class_path)


def _run_python(spark: SparkSession) -> None:
    spark.sparkContext.parallelize(range(4), 1).map(str).count()
    if importlib.util.find_spec("pyarrow") is not None:
        rows = spark.range(4).mapInArrow(lambda batches: batches, "id long")
        rows.write.format("noop").mode("overwrite").save()


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Hold the lock for the block; give whether it was free."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


if __name__ == "__main__":
    ensure_archive(EmbeddedCluster(), print)
