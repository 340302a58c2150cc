"""Spark's own cluster across hosts: driver and executors each with an address, links that fail.

The hosts are network namespaces of this machine, see :mod:`elastream_lab.hosts.network`. Each has
a ``/tmp`` of its own; the folder with the checkpoint and the output is shared, as it must be.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.components.host_application import LOST_AFTER_S, PARTITIONS
from tests.components.programs import Program
from tests.spark.running_query import PATIENCE_S

from elastream import Decision, read_decisions
from elastream_lab.hosts.namespaces import why_not
from elastream_lab.hosts.network import Network, network
from elastream_lab.hosts.standalone import StandaloneCluster, environment_of, standalone

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"no hosts here: {why_not()}")

DELAYS_MS = {("one", "two"): 3.0, ("one", "three"): 12.0, ("two", "three"): 30.0}
"""One way. A busy machine adds some; no two are so near that it could change their order."""


ATTEMPTS = 5


class Application(Program):
    """The application, with its driver on the host ``driver``."""

    def __init__(self, net: Network, cluster: StandaloneCluster, folder: Path) -> None:
        self._folder = folder
        self._net = net
        host = net["driver"]
        settings = {"folder": str(folder), "master": cluster.url, "address": host.address}
        known = [f"{name}={value}" for name, value in environment_of(host).items()]
        super().__init__(
            "tests.components.host_application",
            json.dumps({**settings, "executors": 2}),
            folder / "application.log",
            before=host.command("env", *known),
        )
        assert self.answer() == "ready"

    @property
    def hosts(self) -> list[str]:
        """The names of the hosts that have an executor."""
        return self._named(self.ask("hosts"))

    @property
    def where(self) -> dict[str, int]:
        """How many tasks each host ran in the last batch."""
        report = self.ask("where")
        return dict(zip(self._named(report), report.values(), strict=True))

    @property
    def decisions(self) -> list[Decision]:
        """What the loop decided."""
        return list(read_decisions(self._folder / "decisions.jsonl"))

    def _named(self, addresses: Any) -> list[str]:
        names = {host.address: host.name for host in self._net.hosts.values()}
        return [names.get(address, address) for address in addresses]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait; a query that has failed fails the test with its reason."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            failed = self.ask("runs")
            assert failed is None, failed
            assert time.monotonic() < deadline, f"waited in vain until {what}: {self._story()}"
            time.sleep(0.5)

    def scale(self, executors: int) -> None:
        """Go to this many executors; each then holds tasks, and the log says so.

        One that the master brings to a host which it has just given up it takes away again: the
        change is given up, and asked for again.
        """
        kind = why = ""
        for _ in range(ATTEMPTS):
            kind, why = self.ask("scale", executors=executors)
            if kind == "done":
                break
            assert kind == "abandon", (kind, why)
        assert kind == "done", (why, self._story())
        assert len(self.hosts) == executors
        assert len(self.where) == executors
        assert sum(self.where.values()) == PARTITIONS
        ends = [each.executors for each in self.decisions if each.kind == "done"]
        assert ends[-1] == executors

    def go_on(self) -> None:
        """Let some batches pass."""
        assert self.ask("batches", number=3), self._story()

    def _story(self) -> list[str]:
        return [f"{each.kind}: {each.reason}" for each in self.decisions if each.kind != "hold"][
            -8:
        ]


@contextmanager
def running(folder: Path) -> Iterator[tuple[Network, StandaloneCluster, Application]]:
    """An application on three hosts: its driver on one, an executor on each of the others."""
    with (
        network(["driver", "one", "two", "three"], shared=[folder]) as net,
        standalone(
            net,
            master="driver",
            workers=["one", "two"],
            folder=folder / "logs",
            worker_timeout_s=LOST_AFTER_S,
        ) as cluster,
    ):
        application = Application(net, cluster, folder)
        try:
            yield net, cluster, application
        finally:
            application.kill()


def test_a_query_stays_exact_over_hosts_and_links_that_fail(tmp_path: Path) -> None:
    with running(tmp_path) as (net, cluster, application):
        application.until(lambda: application.hosts == ["one", "two"], "both hosts take part")
        application.go_on()

        cluster.start_worker("three")
        application.scale(3)
        assert sorted(application.hosts) == ["one", "three", "two"]

        distances_are_as_set(net, application)

        net.slow("two", 300e3)
        assert application.ask("shuffle")
        application.go_on()
        net.slow("two", None)

        net.cut("three")
        time.sleep(LOST_AFTER_S / 6)
        net.mend("three")
        application.go_on()
        assert sorted(application.hosts) == ["one", "three", "two"]

        net.cut("three")
        application.until(lambda: "three" not in application.hosts, "the host behind it is missed")
        application.until(lambda: len(losses(application)) > 0, "the log tells of it")
        application.go_on()
        assert set(application.where) <= {"one", "two"}
        net.mend("three")
        application.scale(3)

        lost = len(losses(application))
        net.lose("two")
        application.until(lambda: "two" not in application.hosts, "the lost host is missed")
        application.until(lambda: len(losses(application)) > lost, "the log tells of it")
        application.go_on()
        assert set(application.where) <= {"one", "three"}

        net.mend("two")
        cluster.start_worker("two")
        application.scale(3)
        assert "two" in application.where
        application.scale(2)
        application.go_on()

        cold = [each.reason for each in application.decisions if "not warmed" in each.reason]
        assert not cold
        outcome = application.ask("stop")
        assert outcome["exact"], outcome
        assert outcome["windows"] >= outcome["due"] > 0
        assert application.end() == 0
    assert not [each.name for each in tmp_path.iterdir() if "elastream" in each.name]


def distances_are_as_set(net: Network, application: Application) -> None:
    """The loop's probe finds no host nearer than it is, and the order of their distances."""
    for pair, ms in DELAYS_MS.items():
        net.delay(*pair, ms)
    names = {host.address: host.name for host in net.hosts.values()}
    reports = {(names[one], names[other]): ms for one, other, ms in application.ask("round_trips")}
    assert reports.keys() == {pair for both in DELAYS_MS for pair in (both, both[::-1])}
    for pair, ms in DELAYS_MS.items():
        assert min(reports[pair], reports[pair[::-1]]) >= 2 * ms
    nearest = sorted(DELAYS_MS, key=lambda pair: min(reports[pair], reports[pair[::-1]]))
    assert nearest == sorted(DELAYS_MS, key=lambda pair: DELAYS_MS[pair])
    for pair in DELAYS_MS:
        net.delay(*pair, 0.0)


def losses(application: Application) -> list[Decision]:
    """What the log says of executors that were lost, one each time."""
    decisions = [each for each in application.decisions if each.kind == "lost"]
    found = [each for each in decisions if each.figures.get("executors_lost")]
    assert all(each.figures["executors_lost"] == 1 for each in found)
    return found
