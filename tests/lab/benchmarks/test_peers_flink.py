from __future__ import annotations

import json
import os
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
import yaml

from elastream.model.errors import ProblemError
from elastream_lab.benchmarks.peers.flink.cluster import (
    FlinkError,
    flink_cluster,
    is_running,
    last_line,
    multipart,
    requirements,
)
from elastream_lab.benchmarks.peers.flink.configuration import FlinkConfiguration
from elastream_lab.benchmarks.peers.flink.installation import FlinkInstallation, installed_flink
from elastream_lab.cli.bench_peers import peers


def made_environment(folder: Path) -> Path:
    """A virtual environment that holds what of Flink is looked at."""
    flink = folder / "lib" / "python3.11" / "site-packages" / "pyflink"
    (flink / "lib").mkdir(parents=True)
    for name in ("flink-dist-2.9.1.jar", "another.jar"):
        (flink / "lib" / name).touch()
    return folder


def made_java(folder: Path, does: str) -> Path:
    """A home whose java does that."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{does}\n")
    java.chmod(0o755)
    return folder / "java"


def test_flink_is_found_in_its_environment(tmp_path: Path) -> None:
    flink = installed_flink(made_environment(tmp_path))
    assert flink.version == "2.9.1"
    assert [jar.name for jar in flink.jars] == ["another.jar", "flink-dist-2.9.1.jar"]


def test_where_there_is_no_flink_a_line_says_how_to_get_it(
    refusing: Callable[..., Callable[..., str]], tmp_path: Path
) -> None:
    refused = refusing(peers, "elastream_lab.benchmarks.peers.bench.run_peers")
    line = refused("--flink", tmp_path)
    assert line == f"--flink: {tmp_path} has no Flink; make such a folder with: make flink"
    with pytest.raises(ProblemError, match="make flink"):
        installed_flink(tmp_path / "missing")


def test_a_cluster_listens_on_the_loopback_alone(tmp_path: Path) -> None:
    configuration = FlinkConfiguration(tmp_path, 1234, 1235, checkpoint_s=0.5)
    folder = configuration.write()
    report = yaml.safe_load((folder / "config.yaml").read_text())
    assert report == dict(configuration.settings())
    hosts = [name for name in report if name.endswith(("host", "address"))]
    assert len(hosts) == 6
    assert {report[name] for name in hosts} == {"127.0.0.1"}
    assert report["execution.checkpointing.interval"] == "500 ms"
    assert (tmp_path / "checkpoints").is_dir()


def test_a_job_is_asked_for_another_width_and_its_source_stays_one() -> None:
    report = {"a": _bounds(1), "b": _bounds(2)}
    assert requirements(report, 3) == {"a": _bounds(1), "b": _bounds(3)}


def _bounds(most: int) -> dict[str, Any]:
    return {"parallelism": {"lowerBound": 1, "upperBound": most}}


@pytest.mark.parametrize(
    ("state", "widths", "status", "runs"),
    [
        ("RUNNING", (1, 3), "RUNNING", True),
        ("RUNNING", (1, 2), "RUNNING", False),
        ("RUNNING", (1, 3), "INITIALIZING", False),
        ("CREATED", (1, 3), "RUNNING", False),
        ("RUNNING", (), "RUNNING", False),
    ],
)
def test_a_job_runs_when_all_its_tasks_do(
    state: str, widths: tuple[int, ...], status: str, runs: bool
) -> None:
    vertices = [{"parallelism": width, "status": status} for width in widths]
    assert is_running({"state": state, "vertices": vertices}, 3) is runs


def test_a_jar_is_sent_as_browsers_send_files() -> None:
    head, content, end = multipart("xyz", "job.jar", b"\x00\r\nPK").partition(b"\x00\r\nPK")
    message = message_from_bytes(head.removeprefix(b"--xyz\r\n"))
    assert message.get_filename() == "job.jar"
    assert message.get_param("name", header="content-disposition") == "jarfile"
    assert (content, end) == (b"\x00\r\nPK", b"\r\n--xyz--\r\n")


def test_a_process_that_ends_is_reported_by_its_last_line(tmp_path: Path) -> None:
    flink = FlinkInstallation("2.9.1", _folder(tmp_path))
    ends = "echo one; echo two >&2; exit 3"
    java = made_java(tmp_path, f"case $* in *ClusterEntrypoint*) {ends};; esac; exec sleep 600")
    with (
        pytest.raises(FlinkError, match=r"^Flink's job manager ended with code 3: two$"),
        flink_cluster(flink, java, _scratch(tmp_path), task_managers=1, checkpoint_s=1.0),
    ):
        pytest.fail("there is no cluster")


def test_of_a_stack_trace_the_cause_is_reported() -> None:
    log = "one\nError: no\n\tat a\nCaused by: no room\n\tat b\n\t... 5 more\n\n"
    assert last_line(log) == "Caused by: no room"
    assert last_line("") == "it said nothing"


def test_every_process_ends_with_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flink = FlinkInstallation("2.9.1", _folder(tmp_path))
    java = made_java(tmp_path, f"echo $$ >> {tmp_path}/ids; exec sleep 600")
    answers = {"slots-total": 2}
    monkeypatch.setattr(
        "elastream_lab.benchmarks.peers.flink.cluster.FlinkCluster.ask",
        lambda *_: json.loads(json.dumps(answers)),
    )
    ids = tmp_path / "ids"

    def interrupted() -> None:
        with flink_cluster(
            flink, java, _scratch(tmp_path), task_managers=2, checkpoint_s=1.0
        ) as cluster:
            cluster.add_task_manager()
            while not ids.exists() or len(ids.read_text().split()) < 4:
                cluster.check()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for process in map(int, ids.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def _folder(tmp_path: Path) -> Path:
    return installed_flink(made_environment(tmp_path / "environment")).folder


def _scratch(tmp_path: Path) -> Path:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return scratch
