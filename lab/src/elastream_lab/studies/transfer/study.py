"""Phases next to all at once: estimated, on the simulated cluster, and between hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from elastream.model.checks import count, positive
from elastream_lab.studies.figure import Curves, Figure
from elastream_lab.studies.transfer.migrations import Migration
from elastream_lab.studies.transfer.ways import WAYS, Way, estimated_s, simulated_s

_ALIKE = 0.02
"""Times that differ by less count as equal."""


@dataclass(frozen=True, slots=True)
class TransferStudy:
    """What is sent, and over what."""

    migrations: tuple[Migration, ...]
    data: str
    """Where the migrations come from."""
    bytes_per_s: float = 4e6
    """What the link of every node carries, in and as much out."""
    hosts: bool = False
    """Whether it is also carried out between hosts of this machine."""
    repeats: int = 3
    """How often, between hosts."""

    def __post_init__(self) -> None:
        positive("bytes_per_s", self.bytes_per_s)
        count("repeats", self.repeats, least=1)


@dataclass(frozen=True, slots=True)
class _Sent:
    """One migration, sent one way."""

    migration: Migration
    way: Way
    estimated_s: float
    simulated_s: float
    measured_s: tuple[float, ...]

    def row(self) -> dict[str, object]:
        """Return the figures."""
        times = sorted(self.measured_s)
        return {
            "migration": self.migration.name,
            "nodes": self.migration.nodes,
            "moves": len(self.migration.plan.moves),
            "state_mb": round(self.migration.state_bytes / 1e6, 1),
            "way": self.way,
            "estimated_s": round(self.estimated_s, 3),
            "simulated_s": round(self.simulated_s, 3),
            **(
                {
                    "measured_s": round(median(times), 3),
                    "least_s": round(times[0], 3),
                    "most_s": round(times[-1], 3),
                }
                if times
                else {}
            ),
        }


def transfer_figure(study: TransferStudy, say: Callable[[str], None]) -> Figure:
    """Send every migration in every way."""
    sent = [each for migration in study.migrations for each in _sent(study, migration, say)]
    rows = [each.row() for each in sent]
    column = "measured_s" if study.hosts else "simulated_s"
    link = f"links of {study.bytes_per_s / 1e6:g} MB/s"
    between = f"; measured: median of {study.repeats}, movers on hosts of this machine"
    return Figure(
        figure="000 sec. 5.1",
        data=f"{study.data}, {link}{between if study.hosts else ''}",
        rows=rows,
        curves=Curves("estimated_s", (column,), "way"),
        trend_holds=_holds(sent, measured=study.hosts),
        says=_says(sent, measured=study.hosts),
    )


def _sent(study: TransferStudy, migration: Migration, say: Callable[[str], None]) -> list[_Sent]:
    times: dict[Way, list[float]] = {way: [] for way in WAYS}
    if study.hosts:
        from elastream_lab.studies.transfer.movers import movers

        with movers(migration.nodes, study.bytes_per_s) as ready:
            for _ in range(study.repeats):  # in turn, so that what else runs here meets all alike
                for way in WAYS:
                    times[way].append(ready.measured_s(migration, way))
                    say(f"{migration.name}, {way}: {times[way][-1]:.2f} s")
    return [
        _Sent(
            migration,
            way,
            estimated_s(migration, way, study.bytes_per_s),
            simulated_s(migration, way, study.bytes_per_s),
            tuple(times[way]),
        )
        for way in WAYS
    ]


def _time_s(sent: _Sent, measured: bool) -> float:
    return median(sent.measured_s) if measured else sent.simulated_s


def _holds(sent: Sequence[_Sent], *, measured: bool) -> bool:
    """Whether phases take the least time, and about what was estimated or more."""
    return all(
        _time_s(phases, measured) <= (1 + _ALIKE) * _time_s(at_once, measured)
        for phases, at_once in zip(_by(sent, "phases"), _by(sent, "at once"), strict=True)
    )


def _by(sent: Sequence[_Sent], way: Way) -> list[_Sent]:
    return [each for each in sent if each.way == way]


def _says(sent: Sequence[_Sent], *, measured: bool) -> str:
    phases = [_time_s(each, measured) for each in _by(sent, "phases")]
    gains, losses = (
        [
            _time_s(each, measured) / time_s
            for each, time_s in zip(_by(sent, way), phases, strict=True)
        ]
        for way in ("at once", "in turn")
    )
    claim = "the paper: phases achieve the optimal transmission time; here all at once takes"
    report = (
        f"{claim} {min(gains):.2f} to {max(gains):.2f} times as long as phases, "
        f"whole tasks in turn {min(losses):.2f} to {max(losses):.2f} times"
    )
    if not measured:
        return f"{report}, simulated."
    over = {
        way: [median(each.measured_s) / each.estimated_s for each in _by(sent, way)] for way in WAYS
    }
    spans = ", ".join(f"{min(all_):.2f} to {max(all_):.2f} {way}" for way, all_ in over.items())
    return f"{report}; measured over estimated {spans}."
