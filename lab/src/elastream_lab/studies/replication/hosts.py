"""EDRP across hosts: what it helps to know the delays between them (paper 004, section 6.2).

The taxi query with its three stateful operators on four hosts of this machine, two at either of two
sites, the driver half-way between: no host is slower than another, and only who talks to whom
matters. The goal is the shortest response time. Once the loop probes the hosts, makes coordinates
of what it finds and plans by them; once it does not, and all hosts are alike. A plan that knows can
gather operators that talk to each other at one site, and give the other's executors back, where
that pays. Whether it would is shown by a third run, whose operators are pinned to one site.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from elastream.model.checks import count, positive
from elastream.model.errors import SparkError
from elastream_lab.applications.taxi.run import TaxiSettings
from elastream_lab.hosts.network import Network, network
from elastream_lab.hosts.standalone import environment_of, standalone
from elastream_lab.studies.figure import Figure

_SITES: Final = (("east1", "east2"), ("west1", "west2"))
_WORKERS: Final = tuple(host for site in _SITES for host in site)
_DRIVER: Final = "driver"
_PERIOD_S: Final = 10.0
_PROBES: Final = 2
_MODES: Final = ("unknown", "known", "pinned")


@dataclass(frozen=True, slots=True)
class HostStudy:
    """What is run."""

    delay_ms: float = 100.0
    """One way between two hosts of different sites."""
    seconds: float = 90.0
    """Length of each run."""
    repeats: int = 1

    def __post_init__(self) -> None:
        positive("delay_ms", self.delay_ms)
        positive("seconds", self.seconds)
        count("repeats", self.repeats, least=1)

    def taxi(self, seed: int) -> TaxiSettings:
        """Return the load: steady, and light, so that delays are what differs."""
        return TaxiSettings(
            seed=seed,
            minutes=60.0,
            trips_a_minute=10 * self.seconds / 60,
            swing=1.0,
            replay_s=self.seconds,
            executors=len(_WORKERS),
            partitions=len(_WORKERS),
            trigger_s=2.0,
        )


def hosts_figure(study: HostStudy, say: Callable[[str], None]) -> Figure:
    """Run the query in every mode, as often as asked for."""
    rows = []
    for repeat in range(1, study.repeats + 1):
        for mode in _MODES:
            say(f"delays {mode}, {repeat} of {study.repeats}: {study.seconds:g} s of trips")
            rows.append(_row(mode, repeat, _run(study, mode, seed=repeat)))
    return judged(rows, study)


def judged(rows: Sequence[dict[str, Any]], study: HostStudy) -> Figure:
    """Return the figure: whether rows come sooner where delays are known, in every repeat."""
    without = [row for row in rows if row["delays"] == "unknown"]
    knowing = [row for row in rows if row["delays"] == "known"]
    pinned = [row for row in rows if row["delays"] == "pinned"]
    sooner = all(
        after["response_ms"] < before["response_ms"]
        for before, after in zip(without, knowing, strict=True)
    )
    exact = all(row["exact"] for row in rows)
    return Figure(
        "004 section 6.2",
        f"the taxi query on four hosts of this machine, at two sites {study.delay_ms:g} ms apart, "
        f"{study.seconds:g} s of made trips; the second half counts",
        rows,
        None,
        sooner and exact,
        "The paper plans by the delays that it measures. Here a row takes "
        f"{_spread(without)} ms where they are not known, {_spread(knowing)} ms where they are, "
        f"and {_spread(pinned)} ms where operators are pinned to one site; "
        f"{'every' if exact else 'NOT every'} ranking is exact.",
    )


def _spread(rows: Sequence[dict[str, Any]]) -> str:
    times = [row["response_ms"] for row in rows]
    mean = f"{fmean(times):.0f}"
    return mean if len(times) == 1 else f"{mean} ({min(times):.0f} to {max(times):.0f})"


def _row(mode: str, repeat: int, fields: dict[str, Any]) -> dict[str, Any]:
    far = [ms for *pair, ms in fields["apart_ms"] if len(_sites(pair)) > 1]
    near = [ms for *pair, ms in fields["apart_ms"] if len(_sites(pair)) == 1]
    return {
        "delays": mode,
        "repeat": repeat,
        "response_ms": round(fields["response_ms"]),
        "batch_ms": round(median(fields["batch_ms"])),
        "least_ms": round(fields["batch_ms"][0]),
        "most_ms": round(fields["batch_ms"][-1]),
        "stages_ms": round(sum(fields["stages_ms"])),
        "outside_ms": round(fields["outside_ms"]),
        "executors": len({host for on in fields["replicas"].values() for host in on}),
        "apart": sum(len(_sites(on)) > 1 for on in fields["replicas"].values()),
        "probed_far_ms": round(median(far), 1) if far else None,
        "probed_near_ms": round(median(near), 1) if near else None,
        "slowest": round(min(fields["speeds"].values()), 2) if fields["speeds"] else None,
        "changes": fields["changes"],
        "exact": fields["exact"],
        "plans": fields["plans"],
    }


def _sites(hosts: Sequence[str]) -> set[int]:
    """Return at which sites hosts are."""
    return {number for number, site in enumerate(_SITES) if not set(site).isdisjoint(hosts)}


def _run(study: HostStudy, mode: str, *, seed: int) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="elastream-edrp-") as name,
        network([_DRIVER, *_WORKERS], shared=[Path(name)]) as net,
    ):
        for one, other in itertools.product(*_SITES):
            net.delay(one, other, study.delay_ms)
        for host in _WORKERS:
            net.delay(_DRIVER, host, study.delay_ms / 2)
        logs = Path(name) / "logs"
        with standalone(net, master=_DRIVER, workers=_WORKERS, folder=logs) as cluster:
            driver = net[_DRIVER]
            wanted = {
                "taxi": _plain(study.taxi(seed)),
                "probes": _PROBES if mode == "known" else 0,
                "pinned": [net[host].address for host in _SITES[0]] if mode == "pinned" else [],
                "period_s": _PERIOD_S,
                "master": cluster.url,
                "address": driver.address,
            }
            report = _driven(driver.command(), wanted, {**environment_of(driver), "TMPDIR": name})
        return _named(report, net)


def _plain(settings: TaxiSettings) -> dict[str, Any]:
    """Return settings of made trips as JSON has them."""
    return {
        name: value for name, value in asdict(settings).items() if name not in ("input", "part")
    }


def _named(reports: dict[str, Any], net: Network) -> dict[str, Any]:
    """Return what was reported with the names of hosts in place of their addresses."""
    names = {each.address: each.name for each in net.hosts.values()}
    reports["replicas"] = {
        op: [names[host] for host in on] for op, on in reports["replicas"].items()
    }
    reports["speeds"] = {names[host]: speed for host, speed in reports["speeds"].items()}
    reports["apart_ms"] = [[names[one], names[other], ms] for one, other, ms in reports["apart_ms"]]
    return reports


def _driven(
    before: Sequence[str], wanted: dict[str, Any], environment: dict[str, str]
) -> dict[str, Any]:
    """Return what the driver's program shows at its end."""
    module = "elastream_lab.studies.replication.host_driver"
    ran = subprocess.run(  # noqa: S603 - a program of ours
        [*before, sys.executable, "-m", module, json.dumps(wanted)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = ran.stdout.splitlines() or ran.stderr.splitlines() or ["silently"]
    try:
        answer: dict[str, Any] = json.loads(lines[-1])
    except ValueError:
        answer = {"error": lines[-1]}
    if "error" in answer:
        raise SparkError(f"the driver on its host has failed: {answer['error']}")
    return answer
