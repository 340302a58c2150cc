"""The same code on a master outside of the driver: Spark's own standalone cluster."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from tests.spark.running_query import PATIENCE_S

from elastream.spark.sessions.java import java_home


@contextmanager
def service(folder: Path, *arguments: str) -> Iterator[None]:
    """A process of the cluster, ended with the block."""
    jars = Path(pyspark.__file__).parent / "jars"
    command = [str(java_home() / "bin" / "java"), "-Xmx256m", "-cp", f"{jars}/*", *arguments]
    with (folder / f"{arguments[0]}.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env=environment(folder)
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
    }


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def await_port(port: int) -> None:
    """A worker or driver that comes too early asks again only 20 seconds later."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, "the master does not listen"
            time.sleep(0.2)
        else:
            return


@pytest.mark.slow
def test_a_query_on_a_standalone_master_is_scaled_in_and_out_and_stays_exact(
    tmp_path: Path,
) -> None:
    host = ("--host", "127.0.0.1", "--webui-port", "0")
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    room = ("--cores", "2", "--memory", "2g", "--work-dir", str(tmp_path / "work"))
    deploy = "org.apache.spark.deploy"
    with ExitStack() as cluster:
        cluster.enter_context(
            service(tmp_path, f"{deploy}.master.Master", *host, "--port", str(port))
        )
        await_port(port)
        cluster.enter_context(service(tmp_path, f"{deploy}.worker.Worker", *host, *room, master))
        ended = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.spark.standalone_application",
                master,
                str(tmp_path / "checkpoint"),
            ],
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE_S,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        "master": master,
        "holders": [2, 1, 2],
        "exact": True,
    }
