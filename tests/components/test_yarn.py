"""An elastic application on a real YARN: containers come, go, are killed, and are not to be had."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from tests.components.cluster_application import SETTINGS
from tests.components.parts import missing
from tests.components.programs import ClusterApplication, cluster_application
from tests.components.sparks import environment
from tests.components.yarn import QUEUE, Yarn, yarn
from tests.spark.running_query import PATIENCE_S, until

pytestmark = pytest.mark.skipif(missing("yarn") is not None, reason=str(missing("yarn")))

MASTER_TOO = 1
"""The application's own master has a container, as the executors have."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with yarn(tmp_path_factory.mktemp("yarn")) as started:
        yield started


def settings(folder: Path) -> dict[str, str]:
    """What an application is given for YARN, in addition to what every one is given."""
    return {
        "spark.yarn.queue": QUEUE,
        # lie on every node already: nothing is sent there
        "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
        "spark.yarn.stagingDir": folder.as_uri(),
    }


def test_the_doctor_says_that_attaching_would_work_on_yarn(tmp_path: Path, cluster: Yarn) -> None:
    given = {**SETTINGS, **settings(tmp_path)}
    options = [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
    command = [
        str(Path(sys.executable).with_name("elastream")),
        "doctor",
        "--master",
        "yarn",
        "--json",
    ]
    cluster.give(2 + MASTER_TOO)
    ended = subprocess.run(
        [*command, "--checkpoint", str(tmp_path), "--patience", str(PATIENCE_S), *options],
        env={**environment(), **cluster.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = {each["name"]: each for each in json.loads(ended.stdout)["findings"]}
    assert "its ResourceManager listens at 127.0.0.1:" in found["cluster manager"]["found"]
    assert found["executors"]["found"] == "2 of 2 came"
    assert found["checkpoint"]["verdict"] == "ok"
    assert found["placement"]["found"].startswith("the state of a throw-away query went where")
    assert {each["verdict"] for each in found.values()} == {"ok"}


def hosts(app: ClusterApplication) -> set[str]:
    return {each["host"] for each in app.ask("executors").values()}


def test_containers_come_go_are_killed_and_refused_and_the_counts_are_exact(
    tmp_path: Path, cluster: Yarn
) -> None:
    cluster.give(2 + MASTER_TOO)
    with cluster_application(
        tmp_path, "yarn", settings(tmp_path), environ=cluster.environment
    ) as app:
        application = app.ask("application")
        assert app.ask("attach", grow_timeout_s=10) == 4
        assert cluster.held(application) == 2 + MASTER_TOO

        kind, why = app.ask("scale", executors=3)  # the queue has no room
        assert kind == "abandon"
        assert "3 executors asked for, 2 alive after at most 10 s" in why
        app.ask("pass_batches", number=2)

        cluster.give(3 + MASTER_TOO)
        app.ask("pass_batches", number=2)
        assert cluster.held(application) == 2 + MASTER_TOO, "the request was taken back"
        app.ask("attach")
        assert app.ask("scale", executors=3)[0] == "done"
        assert cluster.held(application) == 3 + MASTER_TOO
        assert len(set(app.ask("where").values())) == 3
        assert hosts(app) == set(cluster.nodes("RUNNING"))

        held = app.ask("where")
        victim = held[min(held)]
        before = app.ask("executors")
        cluster.signal(before[victim]["CONTAINER_ID"])
        until(lambda: victim not in app.ask("executors"), "Spark misses the executor")
        until(lambda: len(app.ask("executors")) == 3, "YARN has given another one")
        assert app.ask("scale", executors=3)[0] == "done"
        (new,) = app.ask("executors").keys() - before.keys()
        assert new in app.ask("where").values(), "it works"

        assert app.ask("scale", executors=2)[0] == "done"
        until(lambda: cluster.held(application) == 2 + MASTER_TOO, "the container is given back")
        app.ask("pass_batches", number=3)
        assert cluster.held(application) == 2 + MASTER_TOO, "and none comes in its place"

        ((_, home),) = (each for each in cluster.containers(application).items() if master(each[0]))
        (away,) = (node for node in cluster.nodes("RUNNING") if node != home.rpartition(":")[0])
        assert away in hosts(app)
        cluster.decommission(away)
        until(lambda: away not in hosts(app), "the executors of the node have left it")
        until(lambda: bool(app.ask("executors")), "there is one on the other node")
        app.ask("pass_batches", number=3)
        rows, exact = app.ask("finish")
        assert rows > 0
        assert exact


def master(container: str) -> bool:
    """Whether it is the container of an application's master: its first."""
    return int(container.rpartition("_")[2]) == 1
