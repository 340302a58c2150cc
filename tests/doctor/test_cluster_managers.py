"""Cluster managers that are not here, known by their addresses before any Java starts."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from elastream.doctor.cluster_managers import answers, cluster_manager
from elastream.doctor.findings import Finding, Verdict
from elastream.launch.given import Given


def given(**settings: str) -> Given:
    return Given({f"spark.{name.replace('__', '.')}": each for name, each in settings.items()}, {})


@pytest.mark.parametrize(
    ("option", "environ", "verdict", "says"),
    [
        (None, {}, "ok", "the embedded cluster"),
        ("local-cluster[2,1,1024]", {}, "ok", "executors of this machine"),
        ("spark://there:1", {}, "ok", "standalone"),
        ("spark://gone:1,there:1", {}, "ok", "standalone"),
        ("spark://gone:1", {}, "fail", "gone:1: refused"),
        ("yarn", {}, "fail", "nothing says where it is"),
        ("yarn", {"HADOOP_CONF_DIR": "nowhere"}, "ok", "listens at 0.0.0.0:8032"),
        ("k8s://https://there:1", {}, "fail", "nothing says what executors run"),
        ("mesos://there:1", {}, "fail", "not a master that elastream knows"),
        ("local[2]", {}, "fail", "one process without executors"),
        ("local", {}, "fail", "one process without executors"),
    ],
)
def test_somebody_must_be_there_to_ask_for_executors(
    option: str | None, environ: Mapping[str, str], verdict: Verdict, says: str
) -> None:
    def reached(address: str) -> str | None:
        return "refused" if address.startswith("gone") else None

    finding = cluster_manager(given(), option, environ, reached)
    assert finding.verdict == verdict
    assert says in finding.found
    assert finding.todo or verdict == "ok"


def test_another_master_in_the_program_is_refused_as_run_does() -> None:
    finding = cluster_manager(given(master="spark://a:1"), "spark://b:1", {})
    assert finding.verdict == "fail"
    assert finding.todo == "leave one of them out"


def test_whoever_listens_is_reached_and_no_one_else() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert answers(f"127.0.0.1:{port}") is None
    assert answers(f"127.0.0.1:{port}") == "Connection refused"
    assert answers("127.0.0.1:99999999") is not None
    assert answers("nowhere") == "is not HOST:PORT"


def on_yarn(folder: Path, reached: Mapping[str, str | None], **settings: str) -> Finding:
    """Look at a ResourceManager that is configured so."""
    properties = "".join(
        f"<property><name>yarn.resourcemanager.{name.replace('__', '.')}</name>"
        f"<value>{value}</value></property>"
        for name, value in settings.items()
    )
    (folder / "yarn-site.xml").write_text(f"<configuration>{properties}</configuration>")
    return cluster_manager(given(), "yarn", {"YARN_CONF_DIR": str(folder)}, reached.__getitem__)


def test_yarn_is_where_its_configuration_says(tmp_path: Path) -> None:
    there = {"there:8032": None, "there:9": None}
    assert on_yarn(tmp_path, there, hostname="there").verdict == "ok"
    spelled = "${yarn.resourcemanager.hostname}:9"
    finding = on_yarn(tmp_path, there, hostname="there", address=spelled)
    assert (finding.verdict, finding.found) == (
        "ok",
        "YARN, its ResourceManager listens at there:9",
    )


def test_a_resource_manager_that_does_not_answer_fails_at_once(tmp_path: Path) -> None:
    finding = on_yarn(tmp_path, {"gone:8032": "Connection refused"}, hostname="gone")
    assert finding.verdict == "fail"
    assert finding.found == "no ResourceManager answers at gone:8032: Connection refused"
    assert "yarn-site.xml" in finding.todo


def test_one_of_several_resource_managers_is_enough(tmp_path: Path) -> None:
    both = {"ha__enabled": "true", "ha__rm-ids": "a, b", "hostname__a": "gone"}
    both["address__b"] = "there:7"
    finding = on_yarn(tmp_path, {"gone:8032": "no route", "there:7": None}, **both)
    assert (finding.verdict, finding.found[-7:]) == ("ok", "there:7")


def test_what_a_configuration_does_not_say_is_left_to_the_session(tmp_path: Path) -> None:
    assert on_yarn(tmp_path, {}, hostname="${env.MANAGER}").verdict == "warn"
    assert on_yarn(tmp_path, {}, hostname="${yarn.resourcemanager.hostname}").verdict == "warn"


def test_a_configuration_that_cannot_be_read_fails(tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    finding = cluster_manager(given(), "yarn", {"HADOOP_CONF_DIR": str(tmp_path)})
    assert finding.verdict == "fail"
    assert "is not a configuration" in finding.found


@pytest.mark.parametrize(
    ("master", "address"),
    [
        ("k8s://https://there:6443", "there:6443"),
        ("k8s://there:6443", "there:6443"),
        ("k8s://there", "there:443"),
        ("k8s://http://there", "there:80"),
        ("k8s://there:none", "there:none"),
        ("k8s://", ":443"),
    ],
)
def test_kubernetes_must_answer_and_know_an_image(master: str, address: str) -> None:
    image = Given({"spark.kubernetes.container.image": "spark:4.3.0"}, {})
    asked: list[str] = []
    finding = cluster_manager(image, master, {}, lambda where: asked.append(where))
    assert (finding.verdict, asked) == ("warn", [address])
    finding = cluster_manager(image, master, {}, lambda _: "no route")
    assert finding.verdict == "fail"
    assert finding.found == f"no Kubernetes API server answers at {address}: no route"
