"""Settings shared by all tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from hypothesis import HealthCheck, settings

from elastream.cli.command_rules import with_rules
from elastream.model.errors import ElastreamError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Shared machines stall now and then: a slow example is not a fault, so none has a deadline.
# The suite tries the same few examples of every search each time, so that a commit fails for what
# it changed; `make test-slow` goes looking for new ones, as many as each search names.
settings.register_profile(
    "suite",
    deadline=None,
    max_examples=25,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "search", parent=settings.get_profile("suite"), max_examples=2000, derandomize=False
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "suite")
settings.load_profile(PROFILE)

OWN_CLUSTER = {
    "demo/test_demo.py": "own clusters",
    "lab/applications/taxi/test_command.py": "own clusters",
    "lab/applications/traffic/test_commands.py": "own clusters",
    "lab/benchmarks/test_peers_live.py": "own clusters",
    "lab/benchmarks/elasticity/test_run.py": "own clusters",
    "launch/test_examples.py": "programs",
    "launch/test_live.py": "programs",
    "spark/sessions/test_cluster.py": "own clusters",
    "spark/test_documentation.py": "programs",
    "spark/test_realtime.py": "own clusters",
    "spark/test_standalone.py": "programs",
    "test_tutorial.py": "programs",
}
"""Files whose tests start a cluster of their own, and with which others one after the other."""

FIRST_CLUSTER = {
    "handover/spark/test_endings.py",
    "handover/spark/test_offering.py",
    "handover/spark/test_sources.py",
    "handover/spark/test_windowed.py",
    "spark/test_application.py",
    "spark/test_attach.py",
    "spark/test_copies.py",
    "spark/test_executors.py",
    "spark/test_goals.py",
    "spark/test_monitor.py",
    "spark/test_shapes.py",
}
"""Files whose tests take about half of the time on a shared cluster; the others are the other half.
Each half has a worker and a cluster of its own: live executors mostly wait."""

PLANNERS = ("foresight/", "placement/")
"""Folders whose tests compile kernels: one worker compiles each once."""


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs live executors, and keep what shares a cluster on one worker."""
    for item in items:
        if PROFILE == "suite" and isinstance(item, pytest.Function):
            keep_to_a_few_examples(item)
        file = item.path.relative_to(Path(__file__).parent).as_posix()
        shared = "spark" in getattr(item, "fixturenames", ())
        if shared or file in OWN_CLUSTER:
            item.add_marker(pytest.mark.spark)
            half = "first cluster" if file in FIRST_CLUSTER else "second cluster"
            item.add_marker(pytest.mark.xdist_group(half if shared else OWN_CLUSTER[file]))
        elif file.startswith(PLANNERS):
            item.add_marker(pytest.mark.xdist_group("planners"))


def keep_to_a_few_examples(item: pytest.Function) -> None:
    """Let a search that names a larger number of examples try no more than the profile."""
    test, most = getattr(item.obj, "__func__", item.obj), settings().max_examples
    own = getattr(test, "_hypothesis_internal_use_settings", None)
    if own is not None and own.max_examples > most:
        test._hypothesis_internal_use_settings = settings(own, max_examples=most)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the threads of the cluster do where a test has waited in vain."""
    report = yield
    session = getattr(item, "funcargs", {}).get("spark")
    if session is not None and call.excinfo is not None:
        from tests.spark.thread_dumps import IN_VAIN, thread_dump

        why = str(call.excinfo.value)
        if any(words in why for words in IN_VAIN):
            report.sections.append(("threads of the cluster", thread_dump(session)))
    return report


EXECUTORS = 2
MAX_EXECUTORS = 3


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One embedded cluster for all tests on Spark: two executors, room for one more."""
    from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded, stop

    # Spark gives its Python workers ten seconds, in which a busy machine may not have read them
    runner = "pyspark.sql.streaming.python_streaming_source_runner"
    subprocess.run([sys.executable, "-c", f"import {runner}"], check=True)
    session = embedded(
        EmbeddedCluster(
            executors=EXECUTORS,
            max_executors=MAX_EXECUTORS,
            executor_memory_mb=700,
            checkpoint_in_memory=True,
            app_name="elastream tests",
            config={"spark.sql.shuffle.partitions": "4"},
        ),
        timeout_s=600,
    )
    yield session
    stop(session)


Refusal = Callable[..., str]
"""Arguments in, the one line out."""


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Refusal]:
    """Make a command that is known to fail before ``starts``, by its whole name, is called."""

    def of(command: Callable[..., None], starts: str) -> Refusal:
        app = typer.Typer()
        app.command()(command)
        named = with_rules(typer.main.get_command(app))

        def started(*_: object, **__: object) -> None:
            pytest.fail("something was started")

        monkeypatch.setattr(starts, started)

        def run(*arguments: object) -> str:
            with pytest.raises(ElastreamError) as raised:
                named(args=[str(argument) for argument in arguments], standalone_mode=False)
            line = str(raised.value)
            assert len(line.splitlines()) == 1
            return line

        return run

    return of
