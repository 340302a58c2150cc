"""EDRP across hosts: what it helps to know the delays between them (paper 004, section 6.2).

The taxi query with its three stateful operators on three hosts of this machine, two near each other
and one far from all. The goal is the shortest response time. Once the loop probes the hosts, makes
coordinates of what it finds and plans by them; once it does not, and all hosts are alike. A plan
that knows puts operators that talk to each other together, and gives the far executor back.
"""

from __future__ import annotations

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

__all__ = ["HostStudy", "hosts_figure", "judged"]

_NEAR: Final = ("near1", "near2")
_FAR: Final = "far"
_DRIVER: Final = "driver"
_PERIOD_S: Final = 10.0
_PROBES: Final = 2


@dataclass(frozen=True, slots=True)
class HostStudy:
    """What is run."""

    delay_ms: float = 100.0
    """One way between the far host and all others."""
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
            executors=3,
            partitions=3,
            trigger_s=2.0,
        )


def hosts_figure(study: HostStudy, say: Callable[[str], None]) -> Figure:
    """Run the query with delays unknown and known, as often as asked for."""
    rows = []
    for repeat in range(study.repeats):
        for known in (False, True):
            which = f"{repeat + 1} of {study.repeats}"
            say(f"delays {'known' if known else 'unknown'}, {which}: {study.seconds:g} s of trips")
            told = _run(study, seed=repeat + 1, probes=_PROBES if known else 0)
            rows.append(_row(known, repeat + 1, told))
    return judged(rows, study)


def judged(rows: Sequence[dict[str, Any]], study: HostStudy) -> Figure:
    """Return the figure: whether rows come sooner where delays are known, in every repeat."""
    without = [row for row in rows if row["delays"] == "unknown"]
    knowing = [row for row in rows if row["delays"] == "known"]
    sooner = all(
        after["response_ms"] < before["response_ms"]
        for before, after in zip(without, knowing, strict=True)
    )
    exact = all(row["exact"] for row in rows)
    return Figure(
        "004 section 6.2",
        f"the taxi query on three hosts of this machine, one {study.delay_ms:g} ms from all the "
        f"others, {study.seconds:g} s of made trips; the second half counts",
        rows,
        None,
        sooner and exact,
        "The paper plans by the delays that it measures. Here a row takes "
        f"{_spread(without)} ms where they are not known and {_spread(knowing)} ms where they "
        f"are; {'every' if exact else 'NOT every'} ranking is exact.",
    )


def _spread(rows: Sequence[dict[str, Any]]) -> str:
    times = [row["response_ms"] for row in rows]
    mean = f"{fmean(times):.0f}"
    return mean if len(times) == 1 else f"{mean} ({min(times):.0f} to {max(times):.0f})"


def _row(known: bool, repeat: int, told: dict[str, Any]) -> dict[str, Any]:
    far = [each for *pair, each in told["apart_ms"] if _FAR in pair]
    near = [each for *pair, each in told["apart_ms"] if _FAR not in pair]
    return {
        "delays": "known" if known else "unknown",
        "repeat": repeat,
        "response_ms": round(told["response_ms"]),
        "batch_ms": round(median(told["batch_ms"])),
        "least_ms": round(told["batch_ms"][0]),
        "most_ms": round(told["batch_ms"][-1]),
        "far_operators": sum(_FAR in on for on in told["replicas"].values()),
        "probed_far_ms": round(median(far), 1) if far else None,
        "probed_near_ms": round(median(near), 1) if near else None,
        "changes": told["changes"],
        "exact": told["exact"],
        "plans": told["plans"],
    }


def _run(study: HostStudy, *, seed: int, probes: int) -> dict[str, Any]:
    workers = (*_NEAR, _FAR)
    with (
        tempfile.TemporaryDirectory(prefix="elastream-edrp-") as name,
        network([_DRIVER, *workers], shared=[Path(name)]) as net,
    ):
        for other in (_DRIVER, *_NEAR):
            net.delay(_FAR, other, study.delay_ms)
        logs = Path(name) / "logs"
        with standalone(net, master=_DRIVER, workers=workers, folder=logs) as cluster:
            host = net[_DRIVER]
            wanted = {
                "taxi": _plain(study.taxi(seed)),
                "probes": probes,
                "period_s": _PERIOD_S,
                "master": cluster.url,
                "address": host.address,
            }
            told = _driven(host.command(), wanted, {**environment_of(host), "TMPDIR": name})
        return _named(told, net)


def _plain(settings: TaxiSettings) -> dict[str, Any]:
    """Return settings of made trips as JSON has them."""
    return {
        name: value for name, value in asdict(settings).items() if name not in ("input", "part")
    }


def _named(told: dict[str, Any], net: Network) -> dict[str, Any]:
    """Return what was told with the names of hosts in place of their addresses."""
    names = {each.address: each.name for each in net.hosts.values()}
    told["replicas"] = {op: [names[host] for host in on] for op, on in told["replicas"].items()}
    told["apart_ms"] = [[names[one], names[other], ms] for one, other, ms in told["apart_ms"]]
    return told


def _driven(
    before: Sequence[str], wanted: dict[str, Any], environment: dict[str, str]
) -> dict[str, Any]:
    """Return what the driver's program tells at its end."""
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
