from __future__ import annotations

import subprocess
import sys

import pytest
from tests.spark.running_query import PATIENCE_S

SCRIPT = """
import sys
from elastream.spark.sessions.batch_session import batch_session

with batch_session("test", master=sys.argv[1] or None) as spark:
    context = spark.sparkContext
    names = ("spark.driver.host", "spark.driver.bindAddress")
    print(context.master, *(context.getConf().get(name) for name in names))
"""


@pytest.mark.parametrize(
    ("asked", "got"),
    [("", "local[*]"), pytest.param("local[1]", "local[1]", marks=pytest.mark.slow)],
)
def test_a_session_on_this_machine_listens_to_it_alone(asked: str, got: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, asked],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert run.stdout.split() == [got, "127.0.0.1", "127.0.0.1"]
