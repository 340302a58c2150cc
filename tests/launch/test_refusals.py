"""What a program asks for that cannot be steered is one line, before any JVM starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.launch.programs import by_elastream, written

BUILDER = "from pyspark.sql import SparkSession\nSparkSession.builder{}.getOrCreate()\n"
CONF = (
    "from pyspark import SparkConf, SparkContext\n"
    "SparkContext(conf=SparkConf().set('spark.speculation', 'true'), appName='x')\n"
)
CAUGHT = (
    "from pyspark.sql import SparkSession\n"
    "try:\n    SparkSession.builder.config('spark.speculation', 'true').getOrCreate()\n"
    "except Exception:\n    print('goes on')\n"
)
SPECULATION = (
    "elastream: spark.speculation is true; set it to false: a speculative copy of a task takes "
    "the state to another executor; leave it out, or override it with --force\n"
)
CONNECT = "elastream: the program uses Spark Connect, "
LOCAL = "elastream: spark.master is local[2], one process without executors"


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (BUILDER.format(".config('spark.speculation', 'true')"), "", SPECULATION),
        (CONF, "", SPECULATION),
        (CAUGHT, "", SPECULATION),
        (
            BUILDER.format(
                ".config('spark.speculation', 'true').config('spark.locality.wait', '1s')"
            ),
            "",
            "(and 1 more)",
        ),
        (BUILDER.format(".master('local[2]')"), "", LOCAL),
        (
            "from pyspark import SparkContext\nSparkContext('local[2]', 'x')",
            "",
            LOCAL,
        ),
        (
            BUILDER.format(".master('spark://a:1')"),
            "--master spark://b:2",
            "elastream: the program sets spark.master to spark://a:1, against --master spark://b:2",
        ),
        (BUILDER.format(".remote('sc://nowhere')"), "", CONNECT),
        (BUILDER.format(".config('spark.api.mode', 'connect')"), "", CONNECT),
        (BUILDER.replace("getOrCreate", "create").format(".remote('sc://nowhere')"), "", CONNECT),
    ],
)
def test_what_contradicts_steering_is_refused(
    text: str, options: str, says: str, tmp_path: Path
) -> None:
    ran = by_elastream(written(tmp_path, text), options=options)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert says in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"SPARK_CONF_DIR": "{folder}"}, SPECULATION),
        ({"PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell"}, LOCAL),
        ({"MASTER": "local[2]"}, LOCAL),
        ({"SPARK_REMOTE": "sc://nowhere"}, CONNECT),
    ],
)
def test_what_is_around_a_program_is_refused_too(
    environ: dict[str, str], says: str, tmp_path: Path
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.speculation   true\n")
    given = {name: value.format(folder=tmp_path) for name, value in environ.items()}
    ran = by_elastream(written(tmp_path, BUILDER.format("")), environ=given)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(says)
    assert ran.stderr.count("\n") == 1
