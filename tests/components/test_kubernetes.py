"""Spark's Kubernetes backend on a real API server, with a stand-in for what runs pods."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.components.api_server import ApiServer, api_server, missing_api_server
from tests.components.pods import pod_runner
from tests.components.programs import cluster_application
from tests.spark.running_query import until

from elastream import session_settings

pytestmark = pytest.mark.skipif(missing_api_server() is not None, reason=str(missing_api_server()))

ROLE = ("spark-role", "executor")
ID = "spark-exec-id"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(tmp_path / "server") as started, pod_runner(started, tmp_path / "pods"):
        yield started


def pods(server: ApiServer) -> dict[str, dict[str, Any]]:
    """Executors' pods that no one has deleted, by the id of the executor."""
    name, role = ROLE
    return {
        pod["metadata"]["labels"][ID]: pod
        for pod in server.pods().values()
        if pod["metadata"]["labels"].get(name) == role
        and "deletionTimestamp" not in pod["metadata"]
    }


def test_pods_come_go_are_deleted_and_refused_and_the_counts_are_exact(
    tmp_path: Path, server: ApiServer
) -> None:
    conf = {
        **session_settings(local_disk=True, master=server.master),
        **server.settings,
        "spark.kubernetes.container.image": "none",
    }
    with cluster_application(tmp_path, server.master, conf) as app:
        assert app.ask("attach", grow_timeout_s=15) == 4
        assert pods(server).keys() == app.ask("executors").keys()

        server.allow(2)
        kind, why = app.ask("scale", executors=3)  # the namespace has no room
        assert kind == "abandon"
        assert "3 executors asked for, 2 alive after at most 15 s" in why
        app.ask("pass_batches", number=2)
        server.allow_all()

        app.ask("attach")
        assert app.ask("scale", executors=3)[0] == "done"
        assert len(pods(server)) == 3
        assert len(set(app.ask("where").values())) == 3

        before = app.ask("executors")
        held = app.ask("where")
        victim = held[min(held)]
        server.delete_pod(pods(server)[victim]["metadata"]["name"])
        until(lambda: victim not in app.ask("executors"), "Spark misses the executor")
        until(lambda: len(app.ask("executors")) == 3, "another pod has come")
        assert app.ask("scale", executors=3)[0] == "done"
        (new,) = app.ask("executors").keys() - before.keys()
        assert new in app.ask("where").values(), "it works"

        assert app.ask("scale", executors=2)[0] == "done"
        until(lambda: len(server.pods()) == 2, "the pod is gone")
        app.ask("pass_batches", number=3)
        assert len(server.pods()) == 2, "and none comes in its place"
        rows, exact = app.ask("finish")
        assert rows > 0
        assert exact
